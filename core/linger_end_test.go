package core_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/observe"
)

// A lease that lingers is renewed, and ends like any other if it is lost.
func TestLingerAndLoss(t *testing.T) {
	for name, tc := range map[string]struct {
		lose func(t *testing.T, s *telling, eng *core.Engine, l *core.Lease)
		wait time.Duration // until the engine must know
		end  observe.LingerState
	}{
		"nothing happens": {func(*testing.T, *telling, *core.Engine, *core.Lease) {}, time.Minute, ""},
		"forced by its own engine": {func(t *testing.T, s *telling, eng *core.Engine, _ *core.Lease) {
			s.deaf = true
			info, err := eng.Inspect(bg, "k")
			check(t, err == nil && len(info.Holders) == 1 && info.Holders[0].Lingers, "shown as %+v, %v", info, err)
			wantNil(t, errOf(eng.ForceRelease(bg, "k", "a test", info.Holders...)))
		}, 0, observe.LingerWanted},
		"forced by another process": {func(t *testing.T, s *telling, _ *core.Engine, _ *core.Lease) {
			wantNil(t, errOf(newEngine(t, s.Peer()).ForceRelease(bg, "k", "a test")))
		}, 0, observe.LingerWanted},
		"gone at the store":     {func(t *testing.T, s *telling, _ *core.Engine, l *core.Lease) { breakLock(t, s.spy, l) }, 11 * time.Second, observe.LingerLost},
		"the machine has slept": {func(_ *testing.T, s *telling, _ *core.Engine, _ *core.Lease) { s.wall.Jump(time.Minute) }, 2 * time.Second, observe.LingerLost},
		"the store is silent": {func(_ *testing.T, s *telling, _ *core.Engine, _ *core.Lease) {
			s.change(func() { s.onRenew = func(context.Context, driver.Grant) error { return errDown } })
		}, 31 * time.Second, observe.LingerLost},
	} {
		inBubble(t, name, func(t *testing.T) {
			s, seen := newTelling(), &recorder{}
			eng := newEngine(t, s, &s.wall, core.WithLinger(time.Hour), core.WithHooks(seen.hooks(t, "")))
			last := sticky(t, eng, "k")
			tc.lose(t, s, eng, last)
			synctest.Wait()
			time.Sleep(tc.wait)
			synctest.Wait()
			if begun := seen.count("Lingered begun"); begun != 1 || tc.end != "" && seen.count("Lingered "+string(tc.end)) != 1 {
				t.Errorf("seen %q, want %q", seen.events, tc.end)
			}
			s.change(func() { s.onRenew = nil })
			began := time.Now()
			l := sticky(t, eng, "k")
			wantTook(t, began, time.Millisecond) // the store has it back
			if taken := core.Observed(l).HandedOff(); taken != (tc.end == "") || l.Token() <= last.Token() || l.Err() == nil {
				t.Errorf("taken: %t, token %d after %d", taken, l.Token(), last.Token())
			}
		})
	}
}

// Close gives back what lingers, also if nobody answers.
func TestLingerAndClose(t *testing.T) {
	for name, silent := range map[string]bool{"answered": false, "silent": true} {
		inBubble(t, name, func(t *testing.T) {
			s := newTelling()
			eng := open(t, s, core.WithLinger(time.Hour))
			inside := mustAcquire(t, eng, "inside")
			const many = 3000
			for i := range many {
				sticky(t, eng, fmt.Sprint(i))
			}
			if silent {
				s.onRelease = func(ctx context.Context, _ driver.Grant) error { <-ctx.Done(); return errDown }
			}
			began := time.Now()
			time.AfterFunc(time.Second, func() { _ = inside.Release(bg) })
			err := eng.Close(bg)
			took := time.Since(began)
			check(t, took <= time.Second+2*defaultReleaseTimeout+time.Second, "Close took %v", took)
			check(t, silent == errors.Is(err, core.ErrOutcomeUnknown), "Close: %v", err)
			n := s.releases()
			check(t, silent || n == many+1, "%d of %d leases went back", n, many+1)
			s.tell("0", s.asked[1].Owner) // too late
			wantNothingLeft(t, eng)
		})
	}
}

// Nothing lingers while the circuit is open, and what lingers is not taken.
func TestLingerAndCircuit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTelling()
		eng := newEngine(t, s, core.WithLinger(time.Hour))
		sticky(t, eng, "lingers")
		inside := mustAcquire(t, eng, "inside")
		s.change(func() {
			s.onAcquire = func(ctx context.Context, _ driver.Request) error { <-ctx.Done(); return errDown }
		})
		for range 3 {
			_, _ = eng.Acquire(bg, "other", core.WithMaxWait(time.Second))
		}
		wantOnly(t, errOf(eng.Acquire(bg, "lingers", core.WithMaxWait(time.Second))), core.ErrUnavailable, core.ErrCircuitOpen)
		mustRelease(t, inside)
		lingers(t, s, "inside", false)
	})
}

// A lease that lingers goes to whoever wants it, in whatever way, without a wait.
func TestLingerGivesWay(t *testing.T) {
	for name, take := range map[string]func(*core.Engine) (*core.Lease, error){
		"exclusive": func(e *core.Engine) (*core.Lease, error) { return e.Acquire(bg, "k") },
		"shared":    func(e *core.Engine) (*core.Lease, error) { return e.Acquire(bg, "k", core.WithShared()) },
		"a permit":  func(e *core.Engine) (*core.Lease, error) { return e.Acquire(bg, "k", core.WithPermits(2)) },
		"a set":     func(e *core.Engine) (*core.Lease, error) { return e.AcquireAll(bg, exclusive("a", "k")) },
		"a second try": func(e *core.Engine) (*core.Lease, error) {
			if l, err := e.TryAcquire(bg, "k"); !errors.Is(err, core.ErrHeld) {
				return l, err
			}
			synctest.Wait()
			return e.TryAcquire(bg, "k")
		},
	} {
		inBubble(t, name, func(t *testing.T) {
			s := newTelling()
			here := newEngine(t, s, core.WithLinger(time.Minute))
			for _, who := range []*core.Engine{newEngine(t, s.Peer()), here} {
				last := sticky(t, here, "k")
				lingers(t, s, "k", true)
				began := time.Now()
				l, err := take(who)
				must(t, err)
				waited := time.Since(began)
				check(t, waited <= 0 && l.Token() > last.Token(), "waited %v, token %d after %d", waited, l.Token(), last.Token())
				mustRelease(t, l)
				time.Sleep(2 * time.Minute)
			}
		})
	}
}

// A caller that does not wait is refused by another process, never by a lease of its own that
// nobody uses.
func TestLingerRefusesOtherProcessesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTelling()
		here, there := newEngine(t, s, core.WithLinger(time.Minute)), newEngine(t, s.Peer())
		refused := func() *core.HeldError {
			_, err := there.TryAcquire(bg, "k")
			wantOnly(t, err, core.ErrHeld)
			held := (*core.HeldError)(nil)
			errors.As(err, &held)
			synctest.Wait()
			return held
		}
		sticky(t, here, "k")
		if held := refused(); held.HeldFor != 0 {
			t.Errorf("held for %v, though nobody knows", held.HeldFor)
		}
		isFree(t, there, "k")
		inside := mustAcquire(t, here, "k") // and while somebody works under it, for that work
		refused()
		mustRelease(t, inside)
		isFree(t, there, "k")
		sticky(t, here, "k")
		for _, opts := range [][]core.CallOption{nil, {core.WithShared()}, {core.WithTTL(time.Minute)}} {
			l, err := here.TryAcquire(bg, "k", opts...)
			must(t, err)
			mustRelease(t, l)
		}
		wantNil(t, errOf(here.Once(bg, "k", nothing, core.WithFailFast())))
	})
}

// A message that comes before the grant is not lost, nor that messages may have been missed.
func TestLingerWantedBeforeTheGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTelling()
		eng := newEngine(t, s, core.WithLinger(time.Minute))
		for i := range 100 { // of a lease that lingers, too, also before it has gone back
			sticky(t, eng, fmt.Sprint(i))
		}
		s.tell("", "")
		for i := range 100 {
			l := mustAcquire(t, eng, fmt.Sprint(i), core.WithLinger(0))
			check(t, !core.Observed(l).HandedOff(), "%d: taken although a message may have been missed", i)
			mustRelease(t, l)
		}
		for i, tell := range []func(owner string){func(owner string) { s.tell("k", owner) }, func(string) { s.tell("", "") }, func(string) {}} {
			s.onAcquire = func(_ context.Context, req driver.Request) error { tell(req.Owner); return nil }
			sticky(t, eng, "k")
			lingers(t, s, "k", i == 2)
		}
	})
}

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
