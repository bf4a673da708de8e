package locktest_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/drivertest"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/locktest"
	"github.com/keyturn/keyturn/store/memstore"
)

func nothing(context.Context) ([]byte, error) { return nil, nil }

// Each request there is, and how long it took.
func TestOutages(t *testing.T) {
	for name, tc := range map[string]struct {
		fail func(*locktest.Store)
		took time.Duration // of an Acquire that waits for 5s
	}{
		"refuses":       {(*locktest.Store).Refuse, 0},
		"hangs":         {(*locktest.Store).Hang, 5 * time.Second},
		"loses answers": {(*locktest.Store).LoseAnswers, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				kit := locktest.New(t, core.WithReleaseTimeout(time.Second), core.WithMaxWait(5*time.Second), core.WithCircuit(core.Forever))
				l := acquire(t, kit.Engine, "held")
				tc.fail(kit.Store)
				began := time.Now()
				wantIs(t, "Acquire", checktest.ErrorOf(kit.Engine.Acquire(ctx, "k")), driver.ErrUnavailable)
				check(t, time.Since(began) == tc.took, "Acquire took %v", time.Since(began))
				wantIs(t, "Once", checktest.ErrorOf(kit.Engine.Once(ctx, "o", nothing)), driver.ErrUnavailable)
				wantIs(t, "Release", l.Release(ctx), core.ErrOutcomeUnknown)
				kit.Store.Heal()
				wantIs(t, "Release, when the store was back", l.Release(ctx), nil)
				time.Sleep(30 * time.Second) // what a lost answer left behind
				for _, key := range []string{"held", "k", "o"} {
					release(t, acquire(t, kit.Engine, key))
				}
			})
		})
	}
}

func TestWaitersLearnOfAnOutageHoweverShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kit := locktest.New(t)
		l := acquire(t, kit.Engine, "k")
		var waiting sync.WaitGroup
		waiting.Go(func() {
			_, err := kit.Engine.Acquire(ctx, "k")
			check(t, errors.Is(err, driver.ErrUnavailable), "error %v", err)
		})
		time.Sleep(time.Second) // it waits for a hand-off at first, and then at the store
		kit.Store.Refuse()
		kit.Store.Heal()
		waiting.Wait()
		release(t, l)
	})
}

// What lingers goes back when the messages that it is wanted cannot be heard, as soon as the store answers again.
func TestNothingLingersInAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		store := locktest.NewStore(mem)
		eng, err := core.New(store, core.WithLinger(time.Hour), core.WithLogger(slog.New(slog.DiscardHandler)))
		must(t, err)
		ctx := context.Background()
		must(t, eng.Do(ctx, "k", func(context.Context) error { return nil }))
		lingers := func() bool {
			info, err := mem.Inspect(ctx, "k")
			return err == nil && len(info.Holders) == 1 && info.Holders[0].Lingers
		}
		check(t, lingers(), "the lease does not linger")
		store.Refuse()
		time.Sleep(time.Second)
		store.Heal()
		time.Sleep(time.Second)
		check(t, !lingers(), "the lease lingers, although nobody would have heard that it is wanted")
		wantNil(t, eng.Close(ctx))
	})
}

func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kit := locktest.New(t)
		kit.Store.Delay(200 * time.Millisecond)
		began := time.Now()
		release(t, acquire(t, kit.Engine, "k"))
		check(t, time.Since(began) == 400*time.Millisecond, "acquire and release took %v", time.Since(began))
		wantIs(t, "slower than the wait", checktest.ErrorOf(kit.Engine.Acquire(ctx, "k", core.WithMaxWait(100*time.Millisecond))), driver.ErrUnavailable)
	})
}

func TestLose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kit := locktest.New(t)
		check(t, !kit.Store.Lose("k"), "nobody had it")
		l := acquire(t, kit.Engine, "k")
		check(t, kit.Store.Lose("k"), "it was held")
		next := acquire(t, kit.Engine, "k")
		<-l.Context().Done()
		var lost *driver.LeaseLostError
		check(t, errors.As(context.Cause(l.Context()), &lost) && lost.Reason == driver.LossTaken, "cause %v", context.Cause(l.Context()))
		_ = l.Release(ctx) // leaves the next one's alone
		wantNil(t, next.Err())
		release(t, next)
		check(t, !kit.Store.Lose("k"), "it was released")
		wantNil(t, checktest.ErrorOf(kit.Engine.Once(ctx, "k", nothing)))
		check(t, !kit.Store.Lose("k"), "its execution is done")
	})
}

// Lose takes a key from all who share it here, and from nobody at a peer.
func TestLoseShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kit := locktest.New(t)
		peer := kit.Peer(t)
		acquire := func(k *locktest.Kit, claims ...driver.Claim) *core.Lease {
			t.Helper()
			l, err := k.Engine.AcquireAll(ctx, claims)
			must(t, err)
			return l
		}
		mine := []*core.Lease{
			acquire(kit, driver.Shared("k")),
			acquire(kit, driver.Exclusive("a"), driver.Shared("k")),
		}
		theirs := acquire(peer, driver.Shared("k"), driver.Permit("p", 2))
		check(t, kit.Store.Lose("k") && !kit.Store.Lose("k"), "it was held, once")
		for _, l := range mine {
			<-l.Context().Done()
			check(t, errors.Is(l.Release(ctx), driver.ErrLeaseLost), "not lost")
		}
		time.Sleep(30 * time.Second)
		release(t, theirs)
	})
}

// With no fault on it is a store like any other, and its faults are those that a store may have.
func TestContract(t *testing.T) {
	mem := memstore.New()
	var stores []*locktest.Store // of the test that runs
	all := func(do func(*locktest.Store)) func(testing.TB) {
		return func(testing.TB) {
			for _, s := range stores {
				do(s)
			}
		}
	}
	one := func(do func(*locktest.Store)) func(testing.TB, driver.Store) {
		return func(_ testing.TB, s driver.Store) { do(s.(*locktest.Store)) }
	}
	drivertest.Run(t, drivertest.Harness{
		New: func(t testing.TB) driver.Store {
			s := locktest.NewStore(mem.Peer())
			stores = append(stores, s)
			t.Cleanup(func() { stores = nil })
			return s
		},
		Pause:  all((*locktest.Store).Hang),
		Resume: all((*locktest.Store).Heal),
		Cut:    one((*locktest.Store).Hang),
		Heal:   one((*locktest.Store).Heal),
		Around: synctest.Test,
	})
}
