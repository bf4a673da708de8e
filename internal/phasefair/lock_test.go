package phasefair_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/phasefair"
)

var now = time.Unix(1000, 0)

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

// lockOf makes a lock of so many holders, and of waiters that arrive one after the other.
func lockOf(phase phasefair.Phase, holders int, waiters string) phasefair.Lock {
	l := phasefair.Lock{Phase: phase, Holders: make([]phasefair.Holder, holders)}
	for i, w := range strings.Fields(waiters) {
		l.Waiters = append(l.Waiters, phasefair.Queued{Waiter: phasefair.Waiter{Claim: claimOf(w), Arrived: uint64(i + 1)}})
	}
	return l
}

func TestStep(t *testing.T) {
	for _, tc := range []struct {
		sentence string
		phase    string // mode of the holders, or of the last there were
		holders  int
		waiters  string
		granted  []int
		after    string // mode of the phase
	}{
		{"nobody waits", "x", 0, "", nil, "x"},
		{"A1 an exclusive lease keeps everybody out", "x", 1, "x s p2", nil, "x"},
		{"A6 the first of the exclusive requests", "x", 0, "x x", []int{0}, "x"},
		{"M3 the end of an exclusive lease lets all readers in", "x", 0, "x s p2 s", []int{1, 3}, "s"},
		{"M3 and so does the end of the last permit", "p", 0, "p2 s x s", []int{1, 3}, "s"},
		{"M3 the end of the last shared lease lets the first of the others in", "s", 0, "s x s", []int{1}, "x"},
		{"M3 or the first permits", "s", 0, "s p2 p2 p2", []int{1}, "p"},
		{"M3 nobody but readers waits", "s", 0, "s s", []int{0, 1}, "s"},
		{"M2 a reader behind a writer waits", "s", 1, "x s", nil, "s"},
		{"M1 readers join readers", "s", 1, "s s", []int{0, 1}, "s"},
		{"M1 a permit waits for readers", "s", 1, "p3", nil, "s"},
		{"M1 readers wait for permits", "p", 1, "s", nil, "p"},
		{"M6 as many as there are permits", "p", 1, "p3 p3 p3", []int{0, 1}, "p"},
		{"M6 a small N is not overtaken", "p", 2, "p2 p5", nil, "p"},
		{"M6 each brings its own N", "p", 2, "p5 p2", []int{0}, "p"},
		{"M2 permits do not pass a reader", "p", 1, "s p5", nil, "p"},
		{"M6 a permit before a reader gets in", "p", 1, "p5 s p5", []int{0}, "p"},
		{"M2 a permit behind a writer waits", "p", 1, "x p5", nil, "p"},
	} {
		t.Run(tc.sentence, func(t *testing.T) {
			step := lockOf(phaseOf(tc.phase), tc.holders, tc.waiters).Step(now, phasefair.MostPerStep)
			if !slices.Equal(step.Granted, tc.granted) || step.Phase.Mode != phaseOf(tc.after).Mode || step.More {
				t.Errorf("got %+v, want %v, then %s", step, tc.granted, tc.after)
			}
		})
	}
}

// TestStepIsBounded: the readers that are left over come in with the next steps. The
// writer that waits does not overtake them, and readers that come meanwhile do not
// belong to them.
func TestStepIsBounded(t *testing.T) {
	l := lockOf(phaseOf("x"), 0, "x s s s")
	first := l.Step(now, 2)
	if !slices.Equal(first.Granted, []int{1, 2}) || !first.More {
		t.Fatalf("first step: %+v", first)
	}
	l.Phase = first.Phase
	l.Waiters = append(slices.Delete(l.Waiters, 1, 3), phasefair.Queued{Waiter: phasefair.Waiter{Claim: claimOf("s"), Arrived: 5}})
	for _, holders := range []int{2, 0} { // also if the first two have gone by now
		l.Holders = make([]phasefair.Holder, holders)
		if second := l.Step(now, 2); !slices.Equal(second.Granted, []int{1}) || second.More {
			t.Errorf("second step beside %d: %+v", holders, second)
		}
	}
}

func TestDeadAreLeftOut(t *testing.T) {
	l := lockOf(phaseOf("p"), 2, "p2 p2 x")
	l.Holders[0].Ends, l.Holders[1].Ends = now, now.Add(1)
	l.Waiters[0].Ends, l.Waiters[1].Ends = now, now.Add(1)
	if step := l.Step(now, 9); !slices.Equal(step.Granted, []int{1}) {
		t.Errorf("got %+v, want the waiter that lives in the place of the holder that is over", step)
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
			if got := lockOf(phaseOf(tc.phase), tc.holders, tc.waiters).Admits(claimOf(tc.claim), now); got != tc.want {
				t.Errorf("admitted: %v", got)
			}
		})
	}
}

// TestDowngraded: M5 lets the readers in that wait, and no writer.
func TestDowngraded(t *testing.T) {
	l := lockOf(phaseOf("x"), 1, "x s x s")
	l.Phase = l.Downgraded(now)
	if step := l.Step(now, 9); !slices.Equal(step.Granted, []int{1, 3}) {
		t.Errorf("got %+v", step)
	}
}

func TestReach(t *testing.T) {
	claims := []driver.Claim{driver.Exclusive("a"), driver.Shared("b"), driver.Exclusive("c")}
	free, held, shared, awaited := lockOf(phaseOf("x"), 0, ""), lockOf(phaseOf("x"), 1, ""), lockOf(phaseOf("s"), 1, ""), lockOf(phaseOf("s"), 1, "x")
	mine := lockOf(phaseOf("x"), 1, "x")
	mine.Holders[0].Owner = "me"
	over := mine
	over.Holders = []phasefair.Holder{{Owner: "me", Ends: now}}
	for _, tc := range []struct {
		name  string
		locks []phasefair.Lock
		want  int
	}{
		{"all are free", []phasefair.Lock{free, free, free}, 3},
		{"one may be shared", []phasefair.Lock{free, shared, free}, 3},
		{"the first is held", []phasefair.Lock{held, free, free}, 0},
		{"the second is waited for", []phasefair.Lock{free, awaited, free}, 1},
		{"the first is its own", []phasefair.Lock{mine, shared, held}, 2},
		{"the first was its own", []phasefair.Lock{over, free, free}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := phasefair.Reach("me", claims, tc.locks, now); got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
}
