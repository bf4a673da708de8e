package natstest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/servertest"
)

// Why a lease was taken by force is kept in the key's entry for an hour. A key that is freed again and
// again would grow over the server's max_payload, and then nobody could write it.
func TestForcedAgainAndAgain(t *testing.T) {
	t.Parallel()
	servertest.Long(t)
	s := open(t, connect(t, start(t, server.Options{MaxPayload: 48 << 10}).Addr().String()))
	var last driver.Grant
	for i := range 200 {
		g, err := s.Acquire(t.Context(), request("k", time.Minute))
		if err != nil {
			t.Fatalf("after %d forced releases: %v", i, err)
		}
		if _, err := s.ForceRelease(t.Context(), "k", fmt.Sprint(i, strings.Repeat(" because", 40))); err != nil {
			t.Fatalf("forced release %d: %v", i, err)
		}
		last = g
	}
	var lost *driver.LeaseLostError
	if err := s.Renew(t.Context(), []driver.Grant{last})[0]; !errors.As(err, &lost) || !strings.Contains(lost.Error(), "199 because") {
		t.Errorf("the last owner learns %v", err)
	}
}
