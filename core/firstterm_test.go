package core_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/internal/watchdog"
)

const firstTerm = 3 * time.Second

// brief is a store that gives every lease firstTerm, counted from a while ago, until
// it is renewed.
type brief struct {
	*spy
	age  time.Duration
	then func() // after each grant
}

func (s brief) Acquire(ctx context.Context, req driver.Request) (driver.Grant, error) {
	ttl := req.TTL
	req.TTL = firstTerm - s.age
	g, err := s.spy.Acquire(ctx, req)
	if err == nil {
		g.Term, g.Since = firstTerm, time.Now().Add(-s.age)
	}
	g.TTL = ttl
	if s.then != nil {
		s.then()
	}
	return g, err
}

// leftOf is how long the lease has, and goes by the margin for a term.
func leftOf(l *core.Lease, term time.Duration) time.Duration {
	return time.Until(l.Deadline()) + watchdog.Margin(term)
}

// A lease with a short first term is renewed a moment after the grant, and then as
// any other.
func TestFirstTermIsRenewedSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := brief{spy: newSpy(), age: 2 * time.Second}
		eng := newEngine(t, store, core.WithTTL(30*time.Second))
		start := time.Now()
		l := mustAcquire(t, eng, "k")
		if got := leftOf(l, firstTerm); got != time.Second || l.TTL() != 30*time.Second {
			t.Errorf("%v are left of the first term, 1s expected; the TTL is %v", got, l.TTL())
		}
		time.Sleep(5 * time.Millisecond)
		wantEqual(t, "renewals of a lease that could be over by now", store.renewals(), 0)
		time.Sleep(6 * time.Millisecond)
		wantEqual(t, "left after the renewal", leftOf(l, 30*time.Second), 30*time.Second-time.Millisecond)
		time.Sleep(15 * time.Second)
		mustRelease(t, l)
		got := since(start, store.renewedAt)
		if len(got) != 2 || got[0] != 10*time.Millisecond || got[1] != 10*time.Second+10*time.Millisecond {
			t.Errorf("renewed at %v", got)
		}
	})
}

// The first renewal does not wait where hardly anything is left of the term, and one that hangs is
// tried again before the term is over.
func TestFirstRenewalIsInTime(t *testing.T) {
	for name, tc := range map[string]struct {
		age, held time.Duration
		hangs     bool
		tries     int
	}{
		"the term is almost over": {age: firstTerm - watchdog.Margin(firstTerm) - 12*time.Millisecond, held: 5 * time.Millisecond, tries: 1},
		"the store hangs":         {age: 2 * time.Second, held: 5 * time.Second, hangs: true, tries: 2},
	} {
		inBubble(t, name, func(t *testing.T) {
			store := brief{spy: newSpy(), age: tc.age}
			store.onRenew = func(ctx context.Context, _ driver.Grant) error {
				if !tc.hangs || store.renewals() > 1 {
					return nil
				}
				<-ctx.Done()
				return ctx.Err()
			}
			l := mustAcquire(t, newEngine(t, store, core.WithTTL(30*time.Second)), "k")
			time.Sleep(tc.held)
			if n := store.renewals(); n != tc.tries || l.Err() != nil {
				t.Errorf("%d renewals; the lease: %v", n, l.Err())
			}
			mustRelease(t, l)
		})
	}
}

// A first renewal that fails is tried again while the term lasts, and when that is
// over the lease is, whatever its TTL.
func TestFirstTermEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := brief{spy: newSpy(), age: time.Second}
		tries := 0
		store.onRenew = func(context.Context, driver.Grant) error { tries++; return errDown }
		eng := newEngine(t, store, core.WithTTL(30*time.Second))
		began := time.Now()
		l := mustAcquire(t, eng, "k")
		<-l.Context().Done()
		wantEqual(t, "lost after", time.Since(began), firstTerm-watchdog.Margin(firstTerm)-time.Second)
		if reason(l) != driver.LossExpired || tries != 7 { // at 10 ms, and every tenth of the term
			t.Errorf("cause %v after %d tries", context.Cause(l.Context()), tries)
		}
		wantOnly(t, l.Release(bg), core.ErrLeaseLost)
	})
}

// A process that was paused, or asleep, while the grant was on its way to it must
// not believe in it afterwards.
func TestFirstTermThatIsOver(t *testing.T) {
	for name, pause := range map[string]func(wall *core.Wall){
		"paused": func(*core.Wall) { time.Sleep(firstTerm) },
		"asleep": func(wall *core.Wall) { time.Sleep(time.Millisecond); wall.Jump(firstTerm) },
	} {
		synctest.Test(t, func(t *testing.T) {
			wall := &core.Wall{}
			eng := newEngine(t, brief{spy: newSpy(), then: func() { pause(wall) }}, wall, core.WithTTL(30*time.Second))
			late, err := eng.Acquire(bg, "k")
			if err == nil {
				t.Fatalf("%s: granted until %v", name, late.Deadline())
			}
			wantOnly(t, err, core.ErrUnavailable)
		})
	}
}

// If the holder asks for another TTL in the first term, it gets a full one. If there is no
// answer, the first term stays.
func TestExtendInTheFirstTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := brief{spy: newSpy()}
		l := mustAcquire(t, newEngine(t, store, core.WithTTL(30*time.Second)), "k")
		store.change(func() { store.onRenew = func(context.Context, driver.Grant) error { return errDown } })
		before := l.Deadline()
		wantOnly(t, l.Extend(bg, 0), core.ErrOutcomeUnknown, core.ErrUnavailable)
		check(t, l.Deadline().Equal(before), "the deadline is %v, was %v", l.Deadline(), before)
		store.change(func() { store.onRenew = nil })
		must(t, l.Extend(bg, 0))
		wantEqual(t, "left", leftOf(l, 30*time.Second), 30*time.Second)
		time.Sleep(time.Minute)
		mustRelease(t, l)
	})
}
