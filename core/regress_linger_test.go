package core_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/observe"
)

// Leases that lingered and ended at one moment went back with a goroutine each, and those beyond
// 10 000 were tried once and forgotten: their keys stayed locked for the TTL, by nobody.
func TestLeasesThatEndTogetherGoBackInTurn(t *testing.T) {
	const many, atOnce = 2_000, 64
	for name, end := range map[string]func(*telling){
		"their time is over":   func(*telling) { time.Sleep(12 * time.Second) },
		"messages were missed": func(s *telling) { s.tell("", "") },
		"others want them": func(s *telling) {
			for i := range many {
				s.tell(fmt.Sprint(i), s.asked[i].Owner)
			}
		},
	} {
		inBubble(t, name, func(t *testing.T) {
			s, books := newTelling(), &recorder{}
			eng := newEngine(t, s, core.WithLinger(10*time.Second), core.WithMaxLingering(many), core.WithHooks(books.hooks(t, "")))
			for i := range many {
				time.Sleep(100 * time.Microsecond) // tokens must not outrun the clock
				mustRelease(t, mustAcquire(t, eng, fmt.Sprint(i)))
			}
			for i := range many { // all at one moment
				mustRelease(t, mustAcquire(t, eng, fmt.Sprint(i)))
			}
			var now, most atomic.Int32
			s.change(func() {
				s.onRelease = func(context.Context, driver.Grant) error {
					for n := now.Add(1); n > most.Load(); {
						most.Store(n)
					}
					time.Sleep(time.Millisecond)
					now.Add(-1)
					return nil
				}
			})
			if n := s.releases(); n > 0 {
				t.Fatalf("%d leases do not linger", n)
			}
			end(s)
			time.Sleep(many / atOnce * 2 * time.Millisecond)
			if n := most.Load(); n > atOnce {
				t.Errorf("%d releases were under way at a time, want %d at most", n, atOnce)
			}
			wantEqual(t, "leases that went back", s.releases(), many)
			books.wantDebts(t, map[observe.DebtState]int{})
		})
	}
}

// What lingers is bounded, and what is owed counts.
func TestLingeringIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTelling()
		eng := newEngine(t, s, core.WithLinger(time.Minute), core.WithMaxLingering(2), core.WithCircuit(core.Forever))
		for _, key := range []string{"a", "b", "c"} {
			sticky(t, eng, key)
			lingers(t, s, key, key != "c")
		}
		time.Sleep(time.Minute)
		sticky(t, eng, "c")
		lingers(t, s, "c", true)

		s.change(func() { s.onRelease = func(context.Context, driver.Grant) error { return errDown } })
		for _, key := range []string{"d", "e"} {
			l := mustAcquire(t, eng, key, core.WithLinger(0))
			wantOnly(t, l.Release(bg), core.ErrOutcomeUnknown, core.ErrUnavailable)
		}
		l := mustAcquire(t, eng, "f")
		wantOnly(t, l.Release(bg), core.ErrOutcomeUnknown, core.ErrUnavailable)
		s.mend()
	})
	wantOnly(t, errOf(core.New(newTelling(), core.WithMaxLingering(0))), core.ErrInvalidOption)
}

// When a part of the store did not answer a release, all that was owed to the other parts was looked
// through, under a mutex: 64 times, once for each release under way.
func TestASilentPartDoesNotHaveTheOthersLookedThrough(t *testing.T) {
	const many = 2_000
	synctest.Test(t, func(t *testing.T) {
		s := newTelling()
		var located atomic.Int64
		eng := newEngine(t, described{s, func(d *driver.Description) {
			d.Partition = func(key string) string { located.Add(1); return key[:1] }
		}}, core.WithLinger(10*time.Second), core.WithMaxLingering(2*many))
		for _, part := range []string{"a", "b"} {
			for i := range many {
				time.Sleep(100 * time.Microsecond) // tokens must not outrun the clock
				mustRelease(t, mustAcquire(t, eng, fmt.Sprint(part, i)))
			}
		}
		s.change(func() {
			s.onRelease = func(_ context.Context, g driver.Grant) error {
				time.Sleep(time.Millisecond)
				if g.Claims[0].Key[0] == 'a' {
					return errDown
				}
				return nil
			}
		})
		located.Store(0)
		s.tell("", "") // messages were missed, so all of them go back
		time.Sleep(100 * time.Millisecond)
		// Some questions for each lease: when it is owed, sent, answered or left to the goroutine.
		if n := located.Load(); n > 5*2*many {
			t.Errorf("%d leases end, and the store was asked %d times in which part one is", 2*many, n)
		}
		s.change(func() { s.onRelease = nil })
	})
}
