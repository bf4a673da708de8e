package linger_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/internal/handoff"
	"github.com/keyturn/keyturn/core/internal/linger"
	"github.com/keyturn/keyturn/core/internal/watchdog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newTable(t *testing.T, most int, over func(linger.Left)) *linger.Table {
	dog := watchdog.New(watchdog.Config{Answered: func([]driver.Claim, error) {}, Parts: func([]driver.Claim) string { return "" }})
	t.Cleanup(dog.Close)
	return linger.New(dog, most, over)
}

// What is remembered of leases that are wanted is bounded, and ends with the lease. What the table keeps, and for how
// long, the engine's tests prove.
func TestWantedIsBounded(t *testing.T) {
	table := newTable(t, 1, nil)
	for i := range 200 {
		table.Want("k", fmt.Sprint(i))
	}
	table.Want("k", "done")
	table.Forget("k", "done")
	for owner, want := range map[string]bool{"0": true, "199": false, "done": true, "never": true} {
		for range 2 { // it was wanted once
			kept := keep(table, owner, 1)
			if _, is := table.Take("k"); kept != want || is != kept {
				t.Errorf("%s: kept %t, there %t, want %t", owner, kept, is, want)
			}
			want = true
		}
	}
}

func keep(table *linger.Table, owner string, token uint64) bool {
	now := time.Now()
	g := driver.Grant{Owner: owner, Token: token, Claims: []driver.Claim{driver.Exclusive("k")}, TTL: time.Minute, Since: now}
	_, kept := table.Keep(handoff.Grant{Grant: g, Heard: now, Origin: &handoff.Origin{Granted: now}}, "", now, time.Minute)
	return kept
}

// Of two leases on a key, the later one stays: a store that lost its data has forgotten the other.
func TestTwoLeasesOnAKey(t *testing.T) {
	gone := ""
	table := newTable(t, 2, func(l linger.Left) { gone += l.Grant.Owner })
	kept := []bool{keep(table, "old", 1), keep(table, "new", 3), keep(table, "older", 2)}
	if left, _ := table.Take("k"); !slices.Equal(kept, []bool{true, true, false}) || gone != "old" || left.Grant.Owner != "new" || table.Any() {
		t.Errorf("kept %v, given back %q, there %q, others %t", kept, gone, left.Grant.Owner, table.Any())
	}
}
