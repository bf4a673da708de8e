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
		owe(t, leases...)
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
		isFree(t, f.Engine, fmt.Sprint("k", len(leases)-1))
	})
}

// A lease that has run out is not owed any more, and said to have.
func TestDebtsRunOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFailing(t, core.WithTTL(10*time.Second))
		for _, key := range []string{"a", "b"} {
			l := mustAcquire(t, f.Engine, key)
			f.store.Hang()
			owe(t, l)
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
		wantEqual(t, "lines of the log", len(f.log.written()), 4)
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
		owe(t, l)
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
			store, books, log := locktest.NewStore(memstore.New()), &recorder{}, newLines()
			eng := open(t, store, core.WithHooks(books.hooks(t, "")), core.WithLogger(slog.New(log)))
			l, held := mustAcquire(t, eng, "k"), mustAcquire(t, eng, "held")
			store.Refuse()
			owe(t, l)
			if tc.back > 0 {
				time.AfterFunc(tc.back, store.Heal)
			}
			began := time.Now()
			err := eng.Close(callerFor(t, time.Second, 0))
			took := time.Since(began)
			check(t, took <= time.Second+defaultReleaseTimeout, "took %v", took)
			check(t, errors.Is(err, context.DeadlineExceeded), "Close: %v", err) // for the one that is held
			wantEqual(t, "something is unknown", errors.Is(err, core.ErrOutcomeUnknown), tc.want == observe.DebtClosed)
			books.wantDebts(t, map[observe.DebtState]int{observe.DebtOwed: 2, tc.want: 2})
			wantEqual(t, "logged as closed", strings.Contains(fmt.Sprint(log.written()), "closed=2"), tc.want == observe.DebtClosed)
			// A holder that is late has nothing more to say to the store.
			wantOnly(t, held.Release(bg), core.ErrLeaseLost, core.ErrClosed)
			_ = l.Release(bg)
		})
	}
}

// Close must not hang with its store. It sent the release of each lease that was still held, also when its time was
// over: 20 000 of them took 7 s more than it promises, because a store needs a moment to give each up. And it hung for
// ever with a call that did not return, such as one in a hook of the store's client.
func TestCloseEndsInTime(t *testing.T) {
	const many, timeout = 2_000, 5 * time.Second
	for name, tc := range map[string]struct {
		leases    int
		releasing bool
	}{
		"many leases held": {many, false}, "many releases under way": {many, true}, "a request that does not return": {},
	} {
		inBubble(t, name, func(t *testing.T) {
			s, goOn := newSpy(), make(chan struct{})
			eng := open(t, s, core.WithReleaseTimeout(timeout))
			var leases []*core.Lease
			for i := range tc.leases {
				leases = append(leases, mustAcquire(t, eng, fmt.Sprint(i)))
			}
			s.change(func() {
				s.onRelease = func(ctx context.Context, _ driver.Grant) error {
					<-ctx.Done()
					time.Sleep(10 * time.Millisecond)
					return errDown
				}
				s.onAcquire = func(context.Context, driver.Request) error { <-goOn; return errDown }
			})
			var all sync.WaitGroup
			for _, l := range leases {
				if tc.releasing {
					all.Go(func() { wantOnly(t, l.Release(bg), core.ErrOutcomeUnknown, core.ErrUnavailable) })
				}
			}
			if tc.leases == 0 {
				all.Go(func() { check(t, errOf(eng.Acquire(bg, "k")) != nil, "a lease of a closed engine") })
			}
			synctest.Wait()
			began := time.Now()
			check(t, eng.Close(callerFor(t, time.Second, 0)) != nil, "Close knows of nothing")
			took := time.Since(began)
			check(t, took <= time.Second+timeout+20*time.Millisecond, "closed after %v", took)
			close(goOn)
			all.Wait()
		})
	}
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
