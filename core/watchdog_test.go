package core_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/observe"
)

// start is when a bubble's clock begins; offsets are counted from it.
func since(start time.Time, at []time.Time) (out []time.Duration) {
	for _, t := range at {
		out = append(out, t.Sub(start))
	}
	return out
}

func TestRenewedAtAThirdOfTheTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spy := newSpy()
		eng := newEngine(t, spy, core.WithTTL(30*time.Second))
		start := time.Now()
		l := mustAcquire(t, eng, "k")
		time.Sleep(95 * time.Second)
		if l.Err() != nil || l.Context().Err() != nil {
			t.Errorf("lost: %v", l.Err())
		}
		_, err := eng.TryAcquire(context.Background(), "k")
		wantOnly(t, err, core.ErrHeld)
		mustRelease(t, l)
		got := since(start, spy.renewedAt)
		if len(got) != 9 {
			t.Fatalf("%d renewals in 95s: %v", len(got), got)
		}
		for i, at := range got {
			if want := time.Duration(i+1) * 10 * time.Second; at != want {
				t.Errorf("renewal %d at %v, want %v", i, at, want)
			}
		}
	})
}

func TestNoRenewalAfterRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spy := newSpy()
		eng := newEngine(t, spy)
		mustRelease(t, mustAcquire(t, eng, "k"))
		time.Sleep(time.Hour)
		if n := spy.renewals(); n != 0 {
			t.Errorf("%d renewals of a released lease", n)
		}
	})
}

// Leases that are due at about the same time leave in one call, and the
// goroutines do not multiply.
func TestRenewalsAreBatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spy := newSpy()
		eng := newEngine(t, spy, core.WithTTL(30*time.Second))
		mustRelease(t, mustAcquire(t, eng, "warm up"))
		before := runtime.NumGoroutine()
		const n = 1000
		var leases []*core.Lease
		for i := range n {
			leases = append(leases, mustAcquire(t, eng, fmt.Sprint("k", i)))
			time.Sleep(time.Millisecond)
		}
		time.Sleep(60 * time.Second)
		if now := runtime.NumGoroutine(); now > before+5 { // 5: what the runtime and the test itself may do
			t.Errorf("%d goroutines with %d leases, %d before", now, n, before)
		}
		if got := spy.renewals(); got > 12 {
			t.Errorf("%d calls for about 6 rounds of %d leases", got, n)
		}
		for _, l := range leases {
			mustRelease(t, l)
		}
	})
}

// One lease's failed renewal is that lease's alone. (redisson#3194, #2515)
func TestRenewalFailuresAreIsolated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spy := newSpy()
		eng := newEngine(t, spy, core.WithTTL(30*time.Second))
		spy.onRenew = func(_ context.Context, g driver.Grant) error {
			switch g.Claims[0].Key {
			case "taken":
				return &core.LeaseLostError{Key: "taken", Reason: driver.LossTaken}
			case "failing":
				return errDown
			}
			return nil
		}
		taken, failing, good := mustAcquire(t, eng, "taken"), mustAcquire(t, eng, "failing"), mustAcquire(t, eng, "good")
		time.Sleep(11 * time.Second)
		if reason(taken) != driver.LossTaken {
			t.Errorf("a definite no is a loss at once: %v", taken.Err())
		}
		if failing.Err() != nil {
			t.Errorf("an error within the TTL is no loss yet: %v", failing.Err())
		}
		time.Sleep(time.Minute)
		if reason(failing) != driver.LossExpired {
			t.Errorf("failing: %v", failing.Err())
		}
		if good.Err() != nil {
			t.Errorf("good: %v", good.Err())
		}
		mustRelease(t, good)
		wantOnly(t, failing.Release(context.Background()), core.ErrLeaseLost)
		wantOnly(t, taken.Release(context.Background()), core.ErrLeaseLost)
	})
}

// A store that is too slow for a short TTL is quick enough for a long one, also
// while leases with short ones are renewed all the time.
func TestShortTTLsDoNotCostLongOnesTheirRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spy := newSpy()
		eng := newEngine(t, spy)
		spy.onRenew = func(ctx context.Context, _ driver.Grant) error {
			select {
			case <-time.After(5 * time.Millisecond):
				return nil
			case <-ctx.Done():
				return errDown
			}
		}
		long := mustAcquire(t, eng, "long", core.WithTTL(3*time.Second))
		ctx, cancel := context.WithCancel(context.Background())
		var short sync.WaitGroup
		for i := range 20 {
			short.Go(func() {
				time.Sleep(time.Duration(i) * 300 * time.Microsecond) // one of them is always due
				for ctx.Err() == nil {
					l, err := eng.Acquire(context.Background(), fmt.Sprint("short", i), core.WithTTL(driver.MinTTL))
					if err != nil {
						t.Error(err)
						return
					}
					time.Sleep(6 * time.Millisecond)
					_ = l.Release(context.Background()) // lost, some of them
				}
			})
		}
		time.Sleep(10 * time.Second)
		if err := long.Err(); err != nil {
			t.Errorf("long: %v", err)
		}
		cancel()
		short.Wait()
		mustRelease(t, long)
	})
}

// reason says how the lease's context came to its end.
func reason(l *core.Lease) driver.LossReason {
	var lost *core.LeaseLostError
	if l.Context().Err() == nil || !errors.As(context.Cause(l.Context()), &lost) {
		return ""
	}
	return lost.Reason
}

// One renewal that fails does not end renewal. (redisson#3194)
func TestFailedRenewalIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spy := newSpy()
		eng := newEngine(t, spy, core.WithTTL(30*time.Second))
		start := time.Now()
		spy.onRenew = func(context.Context, driver.Grant) error {
			if time.Since(start) < 25*time.Second {
				return errDown
			}
			return nil
		}
		l := mustAcquire(t, eng, "k")
		time.Sleep(40 * time.Second)
		if l.Err() != nil {
			t.Errorf("lost: %v", l.Err())
		}
		got := since(start, spy.renewedAt)
		if len(got) < 5 || len(got) > 8 || got[1]-got[0] != 3*time.Second {
			t.Errorf("tried at %v", got)
		}
		mustRelease(t, l)
	})
}

// What failed together is tried again together: an outage is no reason for a
// call per lease.
func TestRetriesStayBatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spy := newSpy()
		spy.onRenew = func(context.Context, driver.Grant) error { return errDown }
		eng := newEngine(t, spy, core.WithTTL(30*time.Second), core.WithHooks(slow{}.hooks()))
		var leases []*core.Lease
		for i := range 100 {
			leases = append(leases, mustAcquire(t, eng, fmt.Sprint("k", i)))
		}
		time.Sleep(14 * time.Second) // due at 10 s, again at 13 s
		if got := spy.renewals(); got != 2 {
			t.Errorf("%d calls", got)
		}
		for _, l := range leases {
			mustRelease(t, l)
		}
	})
}

// slow takes its time over each renewal.
type slow struct{}

func (o slow) hooks() observe.Hooks {
	return observe.Hooks{Renewed: o.Renewed}
}

func (slow) Renewed(observe.Lease, time.Duration, error) { time.Sleep(time.Millisecond) }

// The next try is not left to the next look at the clocks.
func TestFailedRenewalOfAShortLeaseIsTriedAgainInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spy := newSpy()
		start := time.Now()
		spy.onRenew = func(context.Context, driver.Grant) error {
			if time.Since(start) < 100*time.Millisecond {
				return errDown
			}
			return nil
		}
		eng := newEngine(t, spy, core.WithTTL(150*time.Millisecond))
		l := mustAcquire(t, eng, "k")
		time.Sleep(time.Second)
		mustRelease(t, l)
		want := []time.Duration{50 * time.Millisecond, 65 * time.Millisecond, 80 * time.Millisecond, 95 * time.Millisecond, 110 * time.Millisecond, 160 * time.Millisecond}
		if got := since(start, spy.renewedAt); !slices.Equal(got[:6], want) {
			t.Errorf("tried at %v", got)
		}
	})
}

// With a store that does not answer, the holder's time is over before the
// store's is, and the holder learns it. The last good renewal counts from before
// it was sent. (redisson#4698, etcd#6127)
func TestLostBeforeTheServerLetsTheNextOneIn(t *testing.T) {
	for name, hang := range map[string]bool{"renewals fail": false, "renewals hang": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const ttl = 10 * time.Second
				spy := newSpy()
				eng := newEngine(t, spy, core.WithTTL(ttl))
				spy.onRenew = func(ctx context.Context, _ driver.Grant) error {
					if hang {
						<-ctx.Done()
					}
					return errDown
				}
				start := time.Now()
				l := mustAcquire(t, eng, "k")
				<-l.Context().Done()
				if got, want := time.Since(start), ttl-core.Margin(ttl); got != want {
					t.Errorf("context ended after %v, want %v", got, want)
				}
				if reason(l) != driver.LossExpired {
					t.Errorf("cause %v", context.Cause(l.Context()))
				}
				next := mustAcquire(t, eng, "k") // the store's own clock frees it
				if got := time.Since(start); got < ttl {
					t.Errorf("next one let in after %v", got)
				}
				mustRelease(t, next)
				wantOnly(t, l.Release(context.Background()), core.ErrLeaseLost)
			})
		})
	}
}

// A hanging renewal of one lease does not keep the others from being renewed
// or declared lost in time.
func TestHangingRenewalHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spy := newSpy()
		eng := newEngine(t, spy, core.WithMaxHold(core.Forever))
		spy.onRenew = func(ctx context.Context, g driver.Grant) error {
			if g.Claims[0].Key == "hangs" {
				<-ctx.Done()
				return errDown
			}
			return nil
		}
		hangs := mustAcquire(t, eng, "hangs", core.WithTTL(time.Hour))
		short := mustAcquire(t, eng, "short", core.WithTTL(time.Second))
		time.Sleep(30 * time.Minute)
		if short.Err() != nil {
			t.Errorf("short: %v", short.Err())
		}
		mustRelease(t, short)
		mustRelease(t, hangs)
	})
}

// A store that answers for fewer leases than it was asked about has not said
// that the others are lost, nor that they are good.
func TestMissingAnswersAreNoAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eng := newEngine(t, mute{newSpy()}, core.WithTTL(10*time.Second))
		l := mustAcquire(t, eng, "k")
		time.Sleep(5 * time.Second)
		if l.Err() != nil {
			t.Errorf("lost too early: %v", l.Err())
		}
		time.Sleep(5 * time.Second)
		if reason(l) != driver.LossExpired {
			t.Errorf("cause %v", context.Cause(l.Context()))
		}
		_ = l.Release(context.Background())
	})
}

// mute never answers a renewal.
type mute struct{ *spy }

func (mute) Renew(context.Context, []driver.Grant) []error { return nil }

func TestMaxHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spy := newSpy()
		eng := newEngine(t, spy, core.WithTTL(3*time.Second), core.WithMaxHold(10*time.Second+300*time.Millisecond))
		start := time.Now()
		l := mustAcquire(t, eng, "k")
		<-l.Context().Done()
		if got := time.Since(start); got != 10*time.Second+300*time.Millisecond { // between two looks
			t.Errorf("ended after %v", got)
		}
		if reason(l) != driver.LossMaxHold {
			t.Errorf("cause %v", context.Cause(l.Context()))
		}
		_, err := eng.TryAcquire(context.Background(), "k")
		wantOnly(t, err, core.ErrHeld) // the rest of the TTL is for stopping
		wantOnly(t, l.Release(context.Background()), core.ErrLeaseLost)
		isFree(t, eng, "k") // and a handler that stops frees it at once

		hung := mustAcquire(t, eng, "k")
		next := mustAcquire(t, eng, "k") // one that never stops: by the TTL
		if got := time.Since(start); got > 10*time.Second+14*time.Second {
			t.Errorf("a handler that hangs kept the key for %v", got)
		}
		mustRelease(t, next)
		_ = hung.Release(context.Background())

		forever := mustAcquire(t, eng, "k", core.WithMaxHold(core.Forever))
		time.Sleep(24 * time.Hour)
		if forever.Err() != nil {
			t.Errorf("no max hold: %v", forever.Err())
		}
		mustRelease(t, forever)
	})
}

// A suspended machine: the wall clock ran ahead of the monotonic one, on which
// the timers and the deadline stood still.
func TestSuspendCountsAsTime(t *testing.T) {
	for name, tc := range map[string]struct {
		jump time.Duration
		lost bool
	}{
		"slept past the lease":     {time.Minute, true},
		"slept for a moment":       {2 * time.Second, false},
		"wall clock set back":      {-time.Hour, false},
		"wall clock set right, ms": {50 * time.Millisecond, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				wall := &core.Wall{}
				eng := newEngine(t, newSpy(), wall, core.WithTTL(30*time.Second))
				l := mustAcquire(t, eng, "k")
				time.Sleep(5 * time.Second)
				wall.Jump(tc.jump)
				woke := time.Now()
				if tc.lost {
					<-l.Context().Done()
					if took := time.Since(woke); took > time.Second {
						t.Errorf("noticed after %v", took)
					}
					if reason(l) != driver.LossSuspended {
						t.Errorf("cause %v", context.Cause(l.Context()))
					}
					wantOnly(t, l.Release(context.Background()), core.ErrLeaseLost)
					return
				}
				time.Sleep(time.Minute)
				if l.Err() != nil {
					t.Errorf("lost: %v", l.Err())
				}
				mustRelease(t, l)
			})
		})
	}
}

// Err and Release look at the clocks themselves: right after waking, before
// the watchdog has run.
func TestErrDoesNotWaitForTheWatchdog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wall := &core.Wall{}
		eng := newEngine(t, newSpy(), wall, core.WithTTL(30*time.Second))
		l, other := mustAcquire(t, eng, "k"), mustAcquire(t, eng, "other")
		wall.Jump(time.Minute)
		wantOnly(t, l.Err(), core.ErrLeaseLost)
		if reason(l) != driver.LossSuspended {
			t.Errorf("cause %v", context.Cause(l.Context()))
		}
		wantOnly(t, other.Release(context.Background()), core.ErrLeaseLost)
		_ = l.Release(context.Background())
	})
}

// A renewal that succeeds on the server but whose answer comes after the local
// deadline does not bring the lease back.
func TestLateSuccessDoesNotRevive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eng := newEngine(t, lateRenewal{newSpy()}, core.WithTTL(3*time.Second))
		l := mustAcquire(t, eng, "k")
		deadline := l.Deadline()
		time.Sleep(20 * time.Second)
		wantOnly(t, l.Err(), core.ErrLeaseLost)
		if l.Deadline() != deadline {
			t.Errorf("the deadline moved by %v after the loss", l.Deadline().Sub(deadline))
		}
		wantOnly(t, l.Release(context.Background()), core.ErrLeaseLost)
	})
}

// lateRenewal renews at once and says so late.
type lateRenewal struct{ *spy }

func (s lateRenewal) Renew(ctx context.Context, grants []driver.Grant) []error {
	errs := s.spy.Renew(ctx, grants)
	time.Sleep(10 * time.Second)
	return errs
}

// A machine that slept between request and answer: the backend's time went on,
// and the lease is over although the answer says otherwise.
func TestSuspendedBetweenRequestAndAnswer(t *testing.T) {
	t.Run("acquire", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := &afterAcquire{spy: newSpy()}
			wall := &core.Wall{}
			eng := newEngine(t, store, wall, core.WithTTL(30*time.Second))
			store.then = func() { wall.Jump(time.Minute) }
			_, err := eng.Acquire(context.Background(), "k")
			wantOnly(t, err, core.ErrUnavailable)
		})
	})
	t.Run("renew", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			spy := newSpy()
			wall := &core.Wall{}
			eng := newEngine(t, spy, wall, core.WithTTL(30*time.Second))
			spy.onRenew = func(context.Context, driver.Grant) error {
				time.Sleep(time.Millisecond)
				wall.Jump(time.Minute)
				return nil
			}
			l := mustAcquire(t, eng, "k")
			time.Sleep(11 * time.Second)
			if reason(l) != driver.LossSuspended {
				t.Errorf("cause %v", context.Cause(l.Context()))
			}
			wantOnly(t, l.Release(context.Background()), core.ErrLeaseLost)
		})
	})
	// One that slept while it waited, and was granted after that, is fine.
	t.Run("before the grant", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			wall := &core.Wall{}
			eng := newEngine(t, newSpy(), wall, core.WithTTL(30*time.Second), core.WithMaxHold(core.Forever))
			holder := mustAcquire(t, eng, "k")
			time.AfterFunc(time.Second, func() { wall.Jump(time.Minute) })
			next := mustAcquire(t, eng, "k", core.WithMaxWait(time.Minute))
			time.Sleep(time.Minute)
			if next.Err() != nil {
				t.Errorf("lost: %v", next.Err())
			}
			mustRelease(t, next)
			wantOnly(t, holder.Release(context.Background()), core.ErrLeaseLost)
		})
	})
}

// afterAcquire is a store after whose grants something happens.
type afterAcquire struct {
	*spy
	then func()
}

func (s *afterAcquire) Acquire(ctx context.Context, req driver.Request) (driver.Grant, error) {
	g, err := s.spy.Acquire(ctx, req)
	time.Sleep(time.Millisecond)
	s.then()
	return g, err
}

// The margin is for clocks of different speeds and for what cannot be cut short.
func TestMargin(t *testing.T) {
	for ttl, want := range map[time.Duration]time.Duration{
		driver.MinTTL:    2100 * time.Microsecond,
		30 * time.Second: 302 * time.Millisecond,
	} {
		if got := core.Margin(ttl); got != want {
			t.Errorf("margin of %v: %v, want %v", ttl, got, want)
		}
	}
}

// A lease that can't be renewed is not tried with every batch of the others.
func TestFailedRenewalKeepsItsDistance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spy := newSpy()
		tries := 0
		spy.onRenew = func(_ context.Context, g driver.Grant) error {
			if g.Claims[0].Key == "failing" {
				tries++
				return errDown
			}
			return nil
		}
		eng := newEngine(t, spy)
		failing := mustAcquire(t, eng, "failing", core.WithTTL(30*time.Second))
		busy := mustAcquire(t, eng, "busy", core.WithTTL(6*time.Second)) // a batch every 2s
		time.Sleep(13 * time.Second)                                     // goes along at 8s, and is tried again at 11s
		mustRelease(t, failing)
		mustRelease(t, busy)
		if tries != 2 {
			t.Errorf("tried %d times", tries)
		}
	})
}

// A batch is bounded by the shortest TTL in it, whichever is due first.
func TestBatchHasTheTimeOfItsShortest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spy := newSpy()
		var bounds []time.Duration
		spy.onRenew = func(ctx context.Context, _ driver.Grant) error {
			end, _ := ctx.Deadline()
			bounds = append(bounds, time.Until(end))
			return nil
		}
		eng := newEngine(t, spy)
		long := mustAcquire(t, eng, "long", core.WithTTL(480*time.Millisecond)) // due at 160ms
		time.Sleep(90 * time.Millisecond)
		short := mustAcquire(t, eng, "short", core.WithTTL(300*time.Millisecond)) // due at 190ms
		time.Sleep(80 * time.Millisecond)
		mustRelease(t, short)
		mustRelease(t, long)
		if want := []time.Duration{100 * time.Millisecond, 100 * time.Millisecond}; !slices.Equal(bounds, want) {
			t.Errorf("bounds %v", bounds)
		}
	})
}

// After a sleep every lease is looked at, also behind one that is still good.
func TestSuspendIsNoticedBehindALongerLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wall := &core.Wall{}
		eng := newEngine(t, newSpy(), wall, core.WithMaxHold(core.Forever))
		long := mustAcquire(t, eng, "long", core.WithTTL(90*time.Second)) // renewed at 30s
		time.Sleep(15 * time.Second)
		short := mustAcquire(t, eng, "short", core.WithTTL(60*time.Second)) // renewed at 35s
		time.Sleep(5 * time.Second)
		wall.Jump(65 * time.Second)
		time.Sleep(1100 * time.Millisecond)
		if reason(short) != driver.LossSuspended || long.Err() != nil {
			t.Errorf("short: %v, long: %v", context.Cause(short.Context()), long.Err())
		}
		wantOnly(t, short.Release(context.Background()), core.ErrLeaseLost)
		mustRelease(t, long)
	})
}

// A wall clock that was set back must not hide a sleep.
func TestSuspendAfterTheWallClockWasSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wall := &core.Wall{}
		eng := newEngine(t, newSpy(), wall, core.WithTTL(30*time.Second))
		l := mustAcquire(t, eng, "k")
		wall.Jump(-time.Hour)
		time.Sleep(11 * time.Second)
		wall.Jump(-time.Hour + time.Minute)
		time.Sleep(1100 * time.Millisecond)
		if reason(l) != driver.LossSuspended {
			t.Errorf("cause %v", context.Cause(l.Context()))
		}
		wantOnly(t, l.Release(context.Background()), core.ErrLeaseLost)
	})
}

// What has ended is garbage, the lease and what its caller's context carries,
// though other leases live on.
func TestEndedLeasesAreFreed(t *testing.T) {
	eng := newEngine(t, newSpy())
	stays := mustAcquire(t, eng, "stays")
	type request struct{ _ [64]byte }
	lease, carried := func() (weak.Pointer[core.Lease], weak.Pointer[request]) {
		r := new(request)
		l, err := eng.Acquire(context.WithValue(context.Background(), marked{}, r), "goes")
		if err != nil {
			t.Fatal(err)
		}
		mustRelease(t, l)
		return weak.Make(l), weak.Make(r)
	}()
	for range 3 {
		runtime.GC()
	}
	if lease.Value() != nil || carried.Value() != nil {
		t.Errorf("something holds on to the lease: %v, to the request: %v", lease.Value() != nil, carried.Value() != nil)
	}
	mustRelease(t, stays)
}

// The clocks are looked at once a second from the first lease on, however long the
// watchdog had nothing to do, and however late its renewal is due.
func TestSuspensionIsNoticedAfterAnIdleTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wall := &core.Wall{}
		eng := newEngine(t, newSpy(), wall, core.WithTTL(24*time.Hour), core.WithMaxHold(core.Forever))
		mustRelease(t, mustAcquire(t, eng, "k"))
		time.Sleep(10 * time.Second)
		l := mustAcquire(t, eng, "k")
		wall.Jump(25 * time.Hour)
		time.Sleep(time.Second + time.Millisecond)
		wantOnly(t, context.Cause(l.Context()), core.ErrLeaseLost)
		_ = l.Release(context.Background())
	})
}

// A lease that is due before the watchdog's next look is not left for that.
func TestShortLeaseAfterALongOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spy := newSpy()
		eng := newEngine(t, spy)
		long := mustAcquire(t, eng, "long")
		time.Sleep(time.Millisecond) // the watchdog has looked
		short := mustAcquire(t, eng, "short", core.WithTTL(30*time.Millisecond))
		time.Sleep(500 * time.Millisecond)
		spy.change(func() {
			if short.Err() != nil || len(spy.batches) == 0 {
				t.Errorf("%v after %d renewals", short.Err(), len(spy.batches))
			}
		})
		mustRelease(t, long)
		mustRelease(t, short)
	})
}
