package linger_test

import (
	"fmt"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/internal/handoff"
	"github.com/keyturn/keyturn/core/internal/linger"
	"github.com/keyturn/keyturn/core/internal/watchdog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What is remembered of leases that are wanted is bounded, and ends with the lease. What the table keeps, and for how
// long, the engine's tests prove.
func TestWantedIsBounded(t *testing.T) {
	dog := watchdog.New(watchdog.Config{Answered: func([]driver.Claim, error) {}, Parts: func([]driver.Claim) string { return "" }})
	defer dog.Close()
	table := linger.New(dog, 1, nil)
	for i := range 200 {
		table.Want("k", fmt.Sprint(i))
	}
	table.Want("k", "done")
	table.Forget("k", "done")
	for owner, want := range map[string]bool{"0": true, "199": false, "done": true, "never": true} {
		for range 2 { // it was wanted once
			now := time.Now()
			g := driver.Grant{Owner: owner, Claims: []driver.Claim{driver.Exclusive("k")}, TTL: time.Minute, Since: now}
			_, kept := table.Keep(handoff.Grant{Grant: g, Heard: now, Origin: &handoff.Origin{Granted: now}}, "", now, time.Minute)
			if _, is := table.Take("k"); kept != want || is != kept {
				t.Errorf("%s: kept %t, there %t, want %t", owner, kept, is, want)
			}
			want = true
		}
	}
}
