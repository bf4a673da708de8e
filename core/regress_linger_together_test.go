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
	for name, end := range map[string]func(*owners){
		"their time is over":   func(*owners) { time.Sleep(12 * time.Second) },
		"messages were missed": func(s *owners) { s.tell("", "") },
		"others want them": func(s *owners) {
			for i := range many {
				s.tell(fmt.Sprint(i), s.owners[i])
			}
		},
	} {
		inBubble(t, name, func(t *testing.T) {
			s, books := &owners{telling: newTelling()}, newBooks()
			eng := newEngine(t, s, core.WithLinger(10*time.Second), core.WithMaxLingering(many), core.WithHooks(books.hooks()))
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
			if n := s.releases(); n != many {
				t.Errorf("%d of %d leases went back", n, many)
			}
			books.wants(t, map[observe.DebtState]int{})
		})
	}
}

// owners is a store that knows who was granted what, in order.
type owners struct {
	*telling
	owners []string
}

func (s *owners) Acquire(ctx context.Context, req driver.Request) (driver.Grant, error) {
	s.owners = append(s.owners, req.Owner)
	return s.telling.Acquire(ctx, req)
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
	_, err := core.New(newTelling(), core.WithMaxLingering(0))
	wantOnly(t, err, core.ErrInvalidOption)
}
