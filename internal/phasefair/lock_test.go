package phasefair_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/phasefair"
)

// claimOf reads what somebody wants: x, s, or p and the number of permits.
func claimOf(s string) driver.Claim {
	switch s[0] {
	case 'x':
		return driver.Exclusive("k")
	case 's':
		return driver.Shared("k")
	default:
		return driver.Permit("k", int(s[1]-'0'))
	}
}

func phaseOf(s string) phasefair.Phase { return phasefair.Phase{Mode: claimOf(s + "1").Mode} }

// owner is a member that has nothing but its standing.
type owner phasefair.Standing

func (o *owner) Standing() phasefair.Standing { return phasefair.Standing(*o) }

type lock = phasefair.Lock[*owner]

// waiter is the owner that asked as number arrived. Its name is that number.
func waiter(wants string, arrived int) *owner {
	c := claimOf(wants)
	return &owner{Owner: strconv.Itoa(arrived), Waits: true, Mode: c.Mode, Permits: c.Permits, Arrived: uint64(arrived)}
}

// lockOf makes a lock of so many holders, and of waiters that arrive one after the other.
func lockOf(phase phasefair.Phase, holders int, waiters string) lock {
	l := lock{Phase: phase}
	for range holders {
		l.Members = append(l.Members, &owner{Owner: "holder", Mode: phase.Mode})
	}
	for i, w := range strings.Fields(waiters) {
		l.Members = append(l.Members, waiter(w, i+1))
	}
	return l
}

func owners(all []*owner) string {
	var names []string
	for _, o := range all {
		names = append(names, o.Owner)
	}
	return strings.Join(names, " ")
}

func TestStep(t *testing.T) {
	for _, tc := range []struct {
		sentence string
		phase    string // mode of the holders, or of the last there were
		holders  int
		waiters  string
		granted  string // by their places in the queue, from 1 on
		after    string // mode of the phase
	}{
		{"nobody waits", "x", 0, "", "", "x"},
		{"A1 an exclusive lease keeps everybody out", "x", 1, "x s p2", "", "x"},
		{"A6 the first of the exclusive requests", "x", 0, "x x", "1", "x"},
		{"M3 the end of an exclusive lease lets all readers in", "x", 0, "x s p2 s", "2 4", "s"},
		{"M3 and so does the end of the last permit", "p", 0, "p2 s x s", "2 4", "s"},
		{"M3 the end of the last shared lease lets the first of the others in", "s", 0, "s x s", "2", "x"},
		{"M3 or the first permits", "s", 0, "s p2 p2 p2", "2", "p"},
		{"M3 nobody but readers waits", "s", 0, "s s", "1 2", "s"},
		{"M2 a reader behind a writer waits", "s", 1, "x s", "", "s"},
		{"M1 readers join readers", "s", 1, "s s", "1 2", "s"},
		{"M1 a permit waits for readers", "s", 1, "p3", "", "s"},
		{"M1 readers wait for permits", "p", 1, "s", "", "p"},
		{"M6 as many as there are permits", "p", 1, "p3 p3 p3", "1 2", "p"},
		{"M6 a small N is not overtaken", "p", 2, "p2 p5", "", "p"},
		{"M6 each brings its own N", "p", 2, "p5 p2", "1", "p"},
		{"M2 permits do not pass a reader", "p", 1, "s p5", "", "p"},
		{"M6 a permit before a reader gets in", "p", 1, "p5 s p5", "1", "p"},
		{"M2 a permit behind a writer waits", "p", 1, "x p5", "", "p"},
	} {
		t.Run(tc.sentence, func(t *testing.T) {
			step := lockOf(phaseOf(tc.phase), tc.holders, tc.waiters).Step(phasefair.MostPerStep)
			if owners(step.Granted) != tc.granted || step.Phase.Mode != phaseOf(tc.after).Mode || step.More {
				t.Errorf("got %s, then %v, want %s, then %s", owners(step.Granted), step.Phase.Mode, tc.granted, tc.after)
			}
		})
	}
}

// TestStepIsBounded: the readers that are left over come in with the next steps. The
// writer that waits does not overtake them, and readers that come meanwhile do not
// belong to them.
func TestStepIsBounded(t *testing.T) {
	l := lockOf(phaseOf("x"), 0, "x s s s")
	first := l.Step(2)
	if owners(first.Granted) != "2 3" || !first.More {
		t.Fatalf("first step: %s", owners(first.Granted))
	}
	l.Phase = first.Phase
	for _, m := range first.Granted {
		m.Waits = false
	}
	l.Members = append(l.Members, waiter("s", 5))
	for range 2 { // also if the first two have gone by now
		if second := l.Step(2); owners(second.Granted) != "4" || second.More {
			t.Errorf("second step beside %d: %s", len(l.Holders()), owners(second.Granted))
		}
		for _, m := range first.Granted {
			l.Remove(m)
		}
	}
}

func TestAdmits(t *testing.T) {
	for _, tc := range []struct {
		sentence string
		phase    string
		holders  int
		waiters  string
		claim    string
		want     bool
	}{
		{"a free key", "s", 0, "", "x", true},
		{"A5 a key that is held", "x", 1, "", "x", false},
		{"M1 a reader beside readers", "s", 2, "", "s", true},
		{"M1 a permit beside fewer than its own N", "p", 2, "", "p3", true},
		{"M6 a permit beside as many as its own N", "p", 2, "", "p2", false},
		{"M1 another mode", "s", 1, "", "p9", false},
		{"M2 a reader while a writer waits", "s", 1, "x", "s", false},
		{"M2 a permit while a reader waits", "p", 1, "s", "p9", false},
	} {
		t.Run(tc.sentence, func(t *testing.T) {
			if got := lockOf(phaseOf(tc.phase), tc.holders, tc.waiters).Admits(claimOf(tc.claim)); got != tc.want {
				t.Errorf("admitted: %v", got)
			}
		})
	}
}

// TestDowngraded: M5 lets the readers in that wait, and no writer.
func TestDowngraded(t *testing.T) {
	l := lockOf(phaseOf("x"), 1, "x s x s")
	l.Phase = l.Downgraded()
	if step := l.Step(9); owners(step.Granted) != "2 4" {
		t.Errorf("got %s", owners(step.Granted))
	}
}

func TestReach(t *testing.T) {
	claims := []driver.Claim{driver.Exclusive("a"), driver.Shared("b"), driver.Exclusive("c")}
	free, held, shared, awaited := lockOf(phaseOf("x"), 0, ""), lockOf(phaseOf("x"), 1, ""), lockOf(phaseOf("s"), 1, ""), lockOf(phaseOf("s"), 1, "x")
	mine := lockOf(phaseOf("x"), 1, "x")
	mine.Members[0].Owner = "me"
	for _, tc := range []struct {
		name  string
		locks []lock
		want  int
	}{
		{"all are free", []lock{free, free, free}, 3},
		{"one may be shared", []lock{free, shared, free}, 3},
		{"the first is held", []lock{held, free, free}, 0},
		{"the second is waited for", []lock{free, awaited, free}, 1},
		{"the first is its own", []lock{mine, shared, held}, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := phasefair.Reach("me", claims, func(i int) lock { return tc.locks[i] })
			if got != tc.want || err != nil {
				t.Errorf("got %d, %v, want %d", got, err, tc.want)
			}
		})
	}
	t.Run("its own in another mode", func(t *testing.T) {
		locks := []lock{held, mine, free}
		_, err := phasefair.Reach("me", claims, func(i int) lock { return locks[i] })
		var deadlock *driver.DeadlockError
		if !errors.As(err, &deadlock) || deadlock.Key != "b" || deadlock.Held.Mode != driver.ModeExclusive {
			t.Errorf("got %v", err)
		}
	})
}
