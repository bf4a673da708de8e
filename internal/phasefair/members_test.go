package phasefair_test

import (
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/phasefair"
)

func crowd() phasefair.Members[*owner] {
	return phasefair.Members[*owner]{
		{Owner: "new", Waits: true}, // it has no number yet
		{Owner: "second", Waits: true, Arrived: 9},
		{Owner: "b", Token: 7},
		{Owner: "first", Waits: true, Arrived: 4},
		{Owner: "a", Token: 8},
	}
}

// Tokens and numbers decide, not names.
func TestMembersAreInOrder(t *testing.T) {
	all := crowd()
	all.Sort()
	if got := owners(all); got != "b a first second new" {
		t.Errorf("sorted: %s", got)
	}
	if h, w := owners(all.Holders()), owners(all.Waiters()); h != "b a" || w != "first second new" {
		t.Errorf("holders %s, waiters %s", h, w)
	}
	for name, want := range map[string]int{"first": 0, "new": 2, "nobody": 3} {
		if got := all.Ahead(name); got != want {
			t.Errorf("%d are ahead of %s, want %d", got, name, want)
		}
	}
	all.Remove(all.Find("first"))
	if got := owners(all); got != "b a second new" {
		t.Errorf("without the first: %s", got)
	}
}

func TestHolding(t *testing.T) {
	all := crowd()
	for _, tc := range []struct {
		owner string
		token uint64
		want  bool
	}{
		{"b", 7, true},
		{"b", 0, true}, // it was not told its token
		{"b", 8, false},
		{"first", 0, false},
		{"nobody", 0, false},
	} {
		if m := all.Holding(tc.owner, tc.token); (m != nil) != tc.want || m != nil && m.Owner != tc.owner {
			t.Errorf("%s with token %d: %v", tc.owner, tc.token, m)
		}
	}
}

func TestInTheWay(t *testing.T) {
	left := []time.Duration{2 * time.Second, 5 * time.Second, -time.Second}
	same := func(d time.Duration) time.Duration { return d }
	for mode, want := range map[driver.Mode]time.Duration{
		driver.ModeExclusive: 5 * time.Second, driver.ModeShared: 5 * time.Second,
		driver.ModePermit: 0, // a place is free already
	} {
		if last, room := phasefair.InTheWay(mode, left, same); last != 5*time.Second || room != want {
			t.Errorf("%v: told of %v, room after %v, want %v", mode, last, room, want)
		}
	}
}
