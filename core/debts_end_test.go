package core_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/observe"
	"github.com/keyturn/keyturn/locktest"
	"github.com/keyturn/keyturn/store/memstore"
)

// A debt beyond the bound is not kept, and the log says so. Those that are kept are not
// sent one after the other.
func TestDebtsAreBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("only in the long run: ten thousand releases, twice")
	}
	synctest.Test(t, func(t *testing.T) {
		const most, beyond = 10_000, 7
		f := newFailing(t)
		leases := make([]*core.Lease, most+beyond)
		for i := range leases {
			leases[i] = mustAcquire(t, f.Engine, fmt.Sprint("k", i))
		}
		f.store.Refuse()
		for _, l := range leases {
			wantOnly(t, l.Release(bg), core.ErrOutcomeUnknown, core.ErrUnavailable)
		}
		f.books.wantDebts(t, map[observe.DebtState]int{observe.DebtOwed: most, observe.DebtDropped: beyond})
		f.store.Heal()
		f.store.Delay(5 * time.Millisecond)
		time.Sleep(longestRest + 2*time.Second) // 50 s, one after the other
		f.books.wantDebts(t, map[observe.DebtState]int{observe.DebtOwed: most, observe.DebtDropped: beyond, observe.DebtPaid: most})
		still := 0
		for i := range leases {
			if f.held(t, fmt.Sprint("k", i)) {
				still++
			}
		}
		wantEqual(t, "locked keys", still, beyond)
		time.Sleep(defaultTTL)
		check(t, !f.held(t, fmt.Sprint("k", len(leases)-1)), "what was not kept did not run out")
	})
}

// A lease that has run out is not owed any more, and said to have.
func TestDebtsRunOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFailing(t, core.WithTTL(10*time.Second))
		for _, key := range []string{"a", "b"} {
			l := mustAcquire(t, f.Engine, key)
			f.store.Hang()
			wantOnly(t, l.Release(bg), core.ErrOutcomeUnknown, core.ErrUnavailable)
			f.store.Heal()
			f.store.Refuse()
			time.Sleep(time.Second)
			if key == "a" {
				f.store.Heal()
				time.Sleep(longestRest)
			}
		}
		time.Sleep(12 * time.Second)
		f.books.wantDebts(t, map[observe.DebtState]int{observe.DebtOwed: 2, observe.DebtPaid: 1, observe.DebtExpired: 1})
		if got := f.log.written(); len(got) != 4 {
			t.Errorf("logged %q", got)
		}
		f.store.Heal()
	})
}

// An answer that was lost: a successor has the key by now, and keeps it.
func TestDebtLeavesTheSuccessorAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFailing(t)
		other := newEngine(t, locktest.NewStore(f.mem.Peer()))
		l := mustAcquire(t, f.Engine, "k")
		f.store.LoseAnswers()
		wantOnly(t, l.Release(bg), core.ErrOutcomeUnknown, core.ErrUnavailable)
		next := mustAcquire(t, other, "k")
		f.store.Heal()
		time.Sleep(longestRest)
		f.books.wantDebts(t, map[observe.DebtState]int{observe.DebtOwed: 1, observe.DebtPaid: 1})
		wantNil(t, next.Extend(bg, time.Minute))
		mustRelease(t, next)
	})
}

// Close gives back what is owed, if the store answers in time, and says what is left
// otherwise.
func TestCloseSettles(t *testing.T) {
	for name, tc := range map[string]struct {
		back time.Duration
		want observe.DebtState
	}{
		"the store comes back": {2 * time.Second, observe.DebtPaid},
		"it does not":          {0, observe.DebtClosed},
	} {
		inBubble(t, name, func(t *testing.T) {
			mem, books, lines := memstore.New(), &recorder{}, newLines()
			store := locktest.NewStore(mem)
			eng := open(t, store, core.WithHooks(books.hooks(t, "")), core.WithLogger(slog.New(lines)))
			l, held := mustAcquire(t, eng, "k"), mustAcquire(t, eng, "held")
			store.Refuse()
			wantOnly(t, l.Release(bg), core.ErrOutcomeUnknown, core.ErrUnavailable)
			if tc.back > 0 {
				time.AfterFunc(tc.back, store.Heal)
			}
			ctx, cancel := context.WithTimeout(bg, time.Second)
			defer cancel()
			began := time.Now()
			err := eng.Close(ctx)
			if took := time.Since(began); took > time.Second+defaultReleaseTimeout {
				t.Errorf("took %v", took)
			}
			if !errors.Is(err, context.DeadlineExceeded) { // for the one that is held
				t.Errorf("Close: %v", err)
			}
			if unknown := errors.Is(err, core.ErrOutcomeUnknown); unknown != (tc.want == observe.DebtClosed) {
				t.Errorf("Close: %v", err)
			}
			books.wantDebts(t, map[observe.DebtState]int{observe.DebtOwed: 2, tc.want: 2})
			said := strings.Join(lines.written(), "\n")
			if left := strings.Contains(said, "answered=0 expired=0 dropped=0 closed=2"); left != (tc.want == observe.DebtClosed) {
				t.Errorf("the log says:\n%s", said)
			}
			// A holder that is late has nothing more to say to the store.
			wantOnly(t, held.Release(bg), core.ErrLeaseLost, core.ErrClosed)
			_ = l.Release(bg)
		})
	}
}

// Close sent the release of each lease that was still held, also when its time was over: 20 000 of
// them took 7 s more than it promises, because a store needs a moment to give each up.
func TestCloseEndsInTimeHoweverManyAreHeld(t *testing.T) {
	const many, timeout = 2_000, 5 * time.Second
	for name, releasing := range map[string]bool{"held": false, "under way": true} {
		inBubble(t, name, func(t *testing.T) {
			s := newSpy()
			eng := open(t, s, core.WithReleaseTimeout(timeout))
			leases := make([]*core.Lease, many)
			for i := range leases {
				leases[i] = mustAcquire(t, eng, fmt.Sprint(i))
			}
			s.change(func() {
				s.onRelease = func(ctx context.Context, _ driver.Grant) error {
					<-ctx.Done()
					time.Sleep(10 * time.Millisecond)
					return errDown
				}
			})
			var all sync.WaitGroup
			for _, l := range leases {
				if releasing {
					all.Go(func() { wantOnly(t, l.Release(bg), core.ErrOutcomeUnknown, core.ErrUnavailable) })
				}
			}
			synctest.Wait()
			began := time.Now()
			ctx, cancel := context.WithTimeout(bg, time.Second)
			defer cancel()
			if err := eng.Close(ctx); err == nil {
				t.Error("Close knows of nothing")
			}
			if took := time.Since(began); took > time.Second+timeout+20*time.Millisecond {
				t.Errorf("closed after %v", took)
			}
			all.Wait()
		})
	}
}

// Close hung for ever with a call to the store that did not return, such as one in a hook of the store's
// client.
func TestCloseDoesNotHangWithTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = 5 * time.Second
		s := newSpy()
		goOn := make(chan struct{})
		s.change(func() {
			s.onAcquire = func(context.Context, driver.Request) error {
				<-goOn
				return errDown
			}
		})
		eng := open(t, s, core.WithReleaseTimeout(timeout))
		var all sync.WaitGroup
		all.Go(func() {
			if _, err := eng.Acquire(bg, "k"); err == nil {
				t.Error("a lease of a closed engine")
			}
		})
		synctest.Wait()
		began := time.Now()
		ctx, cancel := context.WithTimeout(bg, time.Second)
		defer cancel()
		wantOnly(t, eng.Close(ctx), core.ErrUnavailable)
		if took := time.Since(began); took > time.Second+timeout {
			t.Errorf("closed after %v", took)
		}
		close(goOn)
		all.Wait()
	})
}

// A store that hung while it was asked to release carried the release out when the
// lease had run out, and said "not yours". Do then reported a lost lease, although its
// work was done in time: a task was run again, a call was answered with ABORTED.
func TestReleaseAnsweredAfterTheLeaseRanOutIsNoLoss(t *testing.T) {
	const ttl = 3 * time.Second
	for name, tc := range map[string]struct {
		hang           time.Duration
		done, released error
	}{
		"after the lease's end": {ttl + time.Second, nil, core.ErrOutcomeUnknown},
		"before it":             {ttl / 10, core.ErrLeaseLost, core.ErrLeaseLost},
	} {
		inBubble(t, name, func(t *testing.T) {
			spy, eng := newSpied(t, core.WithTTL(ttl))
			spy.onRelease = func(context.Context, driver.Grant) error { time.Sleep(tc.hang); return core.ErrLeaseLost }
			wantIs(t, "Do", eng.Do(bg, "k", func(context.Context) error { time.Sleep(ttl / 6); return nil }), tc.done)
			l := mustAcquire(t, eng, "other")
			for range 2 {
				wantOnly(t, l.Release(bg), tc.released)
			}
		})
	}
}
