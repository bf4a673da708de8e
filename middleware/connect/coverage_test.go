package lockconnect_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/locktest"
	lockconnect "github.com/keyturn/keyturn/middleware/connect"
	lockgrpc "github.com/keyturn/keyturn/middleware/grpc"
)

// TestCoverage: each method of the named services is listed, streams too, and misspelt names are errors.
func TestCoverage(t *testing.T) {
	const service = "grpc.health.v1.Health"
	locks, err := lockconnect.New(locktest.New(t).Engine, lockgrpc.Serialize(check, "service:{service}"))
	must(t, err)
	var all []string
	for _, target := range locks.Coverage(service, "no.such.Service") {
		all = append(all, target.String())
	}
	if got, want := fmt.Sprint(all), "["+check+": serialize service:{service} "; !strings.HasPrefix(got, want) || !strings.Contains(got, watch) {
		t.Errorf("Coverage() = %s, want it to begin with %s and to have %s", got, want, watch)
	}
	wantNil(t, locks.Check(service))
	for says, services := range map[string][]string{
		`"` + check + `": this server does not serve it`: nil,
		`no service "no.such.Service"`:                   {service, "no.such.Service"},
	} {
		if err := locks.Check(services...); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("Check(%q) = %v, want an error with %q", services, err, says)
		}
	}
}
