package core_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/observe"
	"github.com/keyturn/keyturn/locktest"
	"github.com/keyturn/keyturn/store/memstore"
)

// failing is an engine over a store that fails on command, and another process's
// over the same memory.
type failing struct {
	*core.Engine
	store *locktest.Store
	mem   *memstore.Store
	books *recorder
	log   *lines
}

func newFailing(t *testing.T, opts ...core.EngineOption) *failing {
	f := &failing{mem: memstore.New(), books: &recorder{}, log: newLines()}
	f.store = locktest.NewStore(f.mem)
	f.Engine = newEngine(t, f.store, append(opts, core.WithHooks(f.books.hooks(t, "")), core.WithLogger(slog.New(f.log)))...)
	return f
}

// held says whether the store counts key as held.
func (f *failing) held(t *testing.T, key string) bool {
	t.Helper()
	info, err := f.mem.Inspect(bg, key)
	must(t, err)
	return len(info.Holders) > 0
}

// owe releases leases while the store does not answer.
func owe(t *testing.T, leases ...*core.Lease) {
	t.Helper()
	for _, l := range leases {
		wantOnly(t, l.Release(bg), core.ErrOutcomeUnknown, core.ErrUnavailable)
	}
}

// owing is an engine that owes the release of key to a spy that does not answer releases.
func owing(t *testing.T, key string) (*spy, *core.Engine) {
	t.Helper()
	spy, eng := newSpied(t)
	l := mustAcquire(t, eng, key)
	spy.change(func() { spy.onRelease = func(context.Context, driver.Grant) error { return errDown } })
	owe(t, l)
	return spy, eng
}

// longestRest is the longest pause between two tries of what is owed.
const longestRest = 300 * time.Millisecond

// Whatever ended without an answer of the store is sent again when that is back:
// no key stays locked that nobody holds.
func TestUnansweredReleasesAreSentAgain(t *testing.T) {
	for name, end := range map[string]func(*testing.T, *failing){
		"Release of a set": func(t *testing.T, f *failing) {
			l := acquireAll(t, f.Engine, core.Permit("j", 2), core.Exclusive("k"))
			f.store.Refuse()
			owe(t, l)
		},
		"Release after an extension": func(t *testing.T, f *failing) {
			l := mustAcquire(t, f.Engine, "k")
			f.store.LoseAnswers()
			wantOnly(t, l.Extend(bg, time.Hour), core.ErrOutcomeUnknown, core.ErrUnavailable)
			f.store.Refuse()
			owe(t, l)
			time.Sleep(defaultTTL) // the store keeps it for an hour
		},
		"Release of the last one to whom it was handed on": func(t *testing.T, f *failing) {
			l := mustAcquire(t, f.Engine, "k")
			next := make(chan *core.Lease, 1)
			go func() { next <- mustAcquire(t, f.Engine, "k") }()
			synctest.Wait()
			f.store.Refuse()
			mustRelease(t, l)
			heir := <-next
			check(t, core.Observed(heir).HandedOff(), "not handed on: this tests nothing")
			owe(t, heir)
		},
		"Do": func(t *testing.T, f *failing) {
			err := f.Do(bg, "k", func(context.Context) error { f.store.Refuse(); return errHandler })
			check(t, errors.Is(err, errHandler) && !errors.Is(err, core.ErrOutcomeUnknown), "Do: %v", err)
		},
		"Once without a record": func(t *testing.T, f *failing) {
			_, err := f.Once(bg, "k", func(context.Context) ([]byte, error) { f.store.Refuse(); return []byte("r"), nil })
			wantOnly(t, err, core.ErrOutcomeUnknown, core.ErrUnavailable)
		},
		"max hold": func(t *testing.T, f *failing) {
			l := mustAcquire(t, f.Engine, "k", core.WithMaxHold(time.Second))
			<-l.Context().Done()
			f.store.Refuse()
			wantOnly(t, l.Release(bg), core.ErrLeaseLost)
		},
	} {
		inBubble(t, name, func(t *testing.T) {
			f := newFailing(t)
			end(t, f)
			time.Sleep(3 * time.Second)
			f.store.Heal()
			time.Sleep(longestRest)
			synctest.Wait()
			for _, key := range []string{"j", "k"} {
				check(t, !f.held(t, key), "%s is still locked %v after the outage", key, longestRest)
			}
		})
	}
}

// Nor does a grant stay that came when its caller had gone.
func TestUnansweredUndoIsSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(bg)
		store := &late{newSpy(), cancel}
		store.onRelease = func(context.Context, driver.Grant) error { return errDown }
		wantOnly(t, errOf(newEngine(t, store).Acquire(ctx, "k")), context.Canceled)
		time.Sleep(3 * time.Second)
		store.mend()
		time.Sleep(longestRest)
		isFree(t, newEngine(t, store.Peer()), "k")
	})
}

// A caller of the same process need not wait until the engine tries again.
func TestSameProcessSettlesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFailing(t)
		leases := []*core.Lease{
			mustAcquire(t, f.Engine, "alone"), mustAcquire(t, f.Engine, "shared", core.WithShared()), mustAcquire(t, f.Engine, "once"),
		}
		set := acquireAll(t, f.Engine, exclusive("a", "b")...)
		f.store.Refuse()
		owe(t, append(leases, set)...)
		time.Sleep(time.Second)
		f.store.Heal()
		began := time.Now()
		for _, key := range []string{"alone", "shared", "b"} {
			isFree(t, f.Engine, key)
		}
		out, err := f.Once(bg, "once", nothing, core.WithFailFast())
		check(t, err == nil && !out.Duplicate, "Once: %+v, %v", out, err)
		wantTook(t, began, 0)
	})
}

// While a release is owed, nobody holds the key. A caller that does not wait gets an error
// about an outage, never about a holder. A caller that waits gets in when the store answers.
func TestOwnDebtIsNoHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spy, eng := owing(t, "k")
		wantOnly(t, errOf(eng.TryAcquire(bg, "k")), core.ErrUnavailable)
		time.AfterFunc(time.Second, spy.mend)
		began := time.Now()
		mustRelease(t, mustAcquire(t, eng, "k"))
		took := time.Since(began)
		check(t, took <= time.Second+longestRest, "let in after %v", took)
	})
}

// A store that refuses a release has answered, also if it is silent about others: nothing runs unlocked, and the circuit
// stays closed.
func TestRefusedReleaseIsNoOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spy, eng := owing(t, "k")
		owe(t, mustAcquire(t, eng, "a"), mustAcquire(t, eng, "z"))
		refusal := &core.UnavailableError{Op: "release", Err: errors.New("read-only"), Refused: true}
		answers := map[string]error{"a": errDown, "k": refusal, "z": errDown}
		spy.change(func() {
			spy.onRelease = func(_ context.Context, g driver.Grant) error { return answers[g.Claims[0].Key] }
		})
		for range 20 {
			err := eng.DoAll(bg, exclusive("a", "k", "z"), noWork, core.WithFailFast(), core.WithRunUnlocked())
			wantOnly(t, err, core.ErrUnavailable)
			wantIs(t, "error", err, refusal)
			time.Sleep(defaultCircuit / 5)
		}
		spy.mend()
	})
}

// An answer to any request says that the store is back. But one sick server among
// healthy ones is not asked without a pause.
func TestAnyAnswerHasDebtsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spy, eng := owing(t, "sick")
		var tries atomic.Int32
		spy.change(func() {
			spy.onRelease = func(_ context.Context, g driver.Grant) error {
				if g.Claims[0].Key != "sick" {
					return nil
				}
				tries.Add(1)
				return errDown
			}
		})
		time.Sleep(time.Second) // the pauses are as long as they get
		tries.Store(0)
		for range 1000 { // one second
			mustRelease(t, mustAcquire(t, eng, "well"))
			time.Sleep(time.Millisecond)
		}
		n := tries.Load()
		check(t, n >= 20 && n <= 60, "tried %d times in a second in which the store answered others", n)
		spy.mend()
	})
}

// The log says what happens to releases that fail, with key and rule: ten lines in ten seconds, and one
// that sums up.
func TestUnansweredReleasesAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFailing(t)
		set := acquireAll(t, f.Engine, exclusive("a", "b")...)
		leases := []*core.Lease{set}
		for i := range 20 {
			leases = append(leases, mustAcquire(t, f.Engine, fmt.Sprint("k", i), core.WithRule("deliver"), core.WithMinHold(time.Minute)))
		}
		f.store.Refuse()
		owe(t, append(leases, set)...) // a repeat is no other debt
		time.Sleep(2 * time.Second)
		f.store.Heal()
		time.Sleep(longestRest)
		want := []string{`.*release unanswered, .* key=a claims=2 owner=\S+ token=\d+ error=".* refuses" resend=true free_in_at_most=15s .*`}
		for i := range 9 {
			want = append(want, fmt.Sprintf(".*release unanswered, .* key=k%d rule=deliver .* free_in_at_most=1m0s .*", i))
		}
		f.log.wantLines(t, append(want, `level=INFO .*settled" answered=21 expired=0 dropped=0 closed=0 after=2\.\d+s asker=<nil>`)...)
		f.books.wantDebts(t, map[observe.DebtState]int{observe.DebtOwed: 21, observe.DebtPaid: 21})
		mustRelease(t, set) // the first one arrived
	})
}

// A release that is answered after all tells that the outage is over: the next caller
// is not refused for the rest of the circuit's pause.
func TestDebtEndsTheCircuitsPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spy, eng := owing(t, "k")
		o := &outage{spy}
		for range 4 { // the pauses are as long as they get
			trip(t, eng, o)
			time.Sleep(time.Second)
		}
		trip(t, eng, o)
		o.mend()
		o.spy.mend()
		time.Sleep(longestRest)
		mustRelease(t, mustAcquire(t, eng, "other"))
	})
}
