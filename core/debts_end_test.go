package core_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
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
		if f.held(t, fmt.Sprint("k", len(leases)-1)) {
			t.Error("what was not kept did not run out")
		}
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
			eng, err := core.New(store, core.WithHooks(books.hooks(t, "")), core.WithLogger(slog.New(lines)))
			must(t, err)
			l, held := mustAcquire(t, eng, "k"), mustAcquire(t, eng, "held")
			store.Refuse()
			wantOnly(t, l.Release(bg), core.ErrOutcomeUnknown, core.ErrUnavailable)
			if tc.back > 0 {
				time.AfterFunc(tc.back, store.Heal)
			}
			ctx, cancel := context.WithTimeout(bg, time.Second)
			defer cancel()
			began := time.Now()
			err = eng.Close(ctx)
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
