package core_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/observe"
	"github.com/keyturn/keyturn/store/memstore"
)

// taking makes each request take a round trip, so that it shows which ones go
// together.
func taking(d time.Duration) func(context.Context, driver.Request) error {
	return func(context.Context, driver.Request) error { time.Sleep(d); return nil }
}

func (s *spy) atStore(key string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting[key]
}

// A thousand readers wait in this process, one of them at the store; when the
// key is theirs they ask together, within bounds, and all have it at once.
func TestReadersAreCalledForwardTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const readers, most, roundTrip = 1000, 64, 10 * time.Millisecond
		spy := newSpy()
		spy.onAcquire = taking(roundTrip)
		eng := newEngine(t, spy, core.WithTTL(time.Hour))
		writer := mustAcquire(t, eng, "k")
		granted := make(chan *core.Lease, readers)
		for range readers {
			go func() { granted <- mustAcquire(t, eng, "k", core.WithShared()) }()
		}
		time.Sleep(time.Second)
		if n := spy.atStore("k"); n != 1 {
			t.Errorf("%d readers wait at the store", n)
		}
		mustRelease(t, writer)
		began := time.Now()
		var all []*core.Lease
		for range readers {
			all = append(all, <-granted)
		}
		if took := time.Since(began); took > (readers/most+1)*roundTrip {
			t.Errorf("it took %v until all had it", took)
		}
		if spy.mostAtOne != most {
			t.Errorf("%d asked at the same time, want %d", spy.mostAtOne, most)
		}
		for _, l := range all {
			mustRelease(t, l)
		}
		if left := eng.Left(); left != "" {
			t.Error(left)
		}
	})
}

// However many readers come and go, a writer of another process has its turn,
// and what waits for it at the store is bounded.
func TestReadersLetAWriterIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most, roundTrip, hold = 64, 10 * time.Millisecond, 100 * time.Millisecond
		mem := memstore.New()
		spy := newSpy()
		spy.Store = mem
		spy.onAcquire = taking(roundTrip)
		readers := newEngine(t, spy, core.WithMaxWait(core.Forever), core.WithMaxWaiters(5000))
		writers := newEngine(t, mem.Peer())
		var all sync.WaitGroup
		for range 5000 {
			all.Go(func() {
				err := readers.Do(context.Background(), "k", func(context.Context) error {
					time.Sleep(hold)
					return nil
				}, core.WithShared())
				if err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(5*roundTrip + roundTrip/2)
		began := time.Now()
		err := writers.Do(context.Background(), "k", func(context.Context) error {
			time.Sleep(time.Second)
			if n := spy.atStore("k"); n > most {
				t.Errorf("%d readers wait at the store", n)
			}
			return nil
		})
		if took := time.Since(began) - time.Second; err != nil || took > hold+2*roundTrip {
			t.Errorf("the writer waited %v, %v", took, err)
		}
		all.Wait()
	})
}

// Nobody overtakes a writer of the same process, and writers keep their order.
func TestOrderOfOneProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eng := newEngine(t, memstore.New())
		holder := mustAcquire(t, eng, "k")
		var mu sync.Mutex
		var got []string
		var all sync.WaitGroup
		for i, mode := range "wwrrwrrrpppw" {
			opts := map[rune][]core.CallOption{'w': nil, 'r': {core.WithShared()}, 'p': {core.WithPermits(2)}}[mode]
			all.Go(func() {
				l := mustAcquire(t, eng, "k", opts...)
				mu.Lock()
				got = append(got, fmt.Sprintf("%c%v", mode, time.Now().Second()))
				mu.Unlock()
				time.Sleep(time.Second)
				mustRelease(t, l)
			})
			if i == 5 { // one that gives up is not in anybody's way
				ctx, giveUp := context.WithCancel(context.Background())
				go func() { _, _ = eng.Acquire(ctx, "k") }()
				synctest.Wait()
				defer giveUp()
				time.AfterFunc(time.Millisecond, giveUp)
			}
			synctest.Wait()
		}
		time.Sleep(time.Second) // the readers' and permits' phases begin at whole seconds
		mustRelease(t, holder)
		all.Wait()
		want := []string{"w1", "w2", "r3", "r3", "w4", "r5", "r5", "r5", "p6", "p6", "p7", "w8"}
		if !slices.Equal(got, want) {
			t.Errorf("turns at %v, want %v", got, want)
		}
	})
}

// Of permits no more callers ask than there are.
func TestPermitsAreCalledForwardTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const callers, permits, roundTrip, hold = 60, 3, 10 * time.Millisecond, time.Second
		spy := newSpy()
		spy.onAcquire = taking(roundTrip)
		eng := newEngine(t, spy, core.WithMaxWait(core.Forever))
		inside, mostInside := 0, 0
		var mu sync.Mutex
		count := func(by int) {
			mu.Lock()
			defer mu.Unlock()
			inside += by
			mostInside = max(mostInside, inside)
		}
		began := time.Now()
		var all sync.WaitGroup
		for range callers {
			all.Go(func() {
				err := eng.Do(context.Background(), "k", func(context.Context) error {
					count(1)
					time.Sleep(hold)
					count(-1)
					return nil
				}, core.WithPermits(permits))
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if mostInside != permits || spy.mostAtOne > permits {
			t.Errorf("%d inside, %d asked at the same time, of %d permits", mostInside, spy.mostAtOne, permits)
		}
		if took := time.Since(began); took > callers/permits*(hold+roundTrip)+roundTrip {
			t.Errorf("it took %v", took)
		}
	})
}

// Who waits for one member of a group keeps nobody from another member, whether
// it waits at the store or in this process; who wants the group is not overtaken.
func TestSiblingsDoNotWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eng := newEngine(t, memstore.New(), core.WithMaxWait(core.Forever))
		var mu sync.Mutex
		var got []string
		var all sync.WaitGroup
		take := func(name string, path ...string) {
			all.Go(func() {
				err := eng.DoAll(context.Background(), core.Under(path...), func(context.Context) error {
					mu.Lock()
					got = append(got, name)
					mu.Unlock()
					time.Sleep(time.Second)
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		want := func(when string, names ...string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(got, names) {
				t.Errorf("%s: %v, want %v", when, got, names)
			}
			got = nil
		}
		take("a1", "g", "a")
		take("a2", "g", "a") // waits at the store
		take("a3", "g", "a") // waits in line
		take("b1", "g", "b")
		take("c1", "g", "c")
		take("other", "h", "a")
		want("at once", "a1", "b1", "c1", "other")
		take("whole", "g")
		take("d1", "g", "d") // behind it
		time.Sleep(time.Second)
		want("after a second", "a2")
		time.Sleep(time.Second)
		want("after two", "a3")
		time.Sleep(time.Second)
		want("after three", "whole")
		time.Sleep(time.Second)
		want("after four", "d1")
		all.Wait()
		if left := eng.Left(); left != "" {
			t.Error(left)
		}
	})
}

// The limits count those as well who are called forward together.
func TestTooManyReaders(t *testing.T) {
	for name, limit := range map[string]core.EngineOption{
		"of a line":   core.WithMaxWaiters(10),
		"of all":      core.WithMaxWaitersTotal(10),
		"of a set":    core.WithMaxWaitersTotal(10),
		"of set line": core.WithMaxWaiters(10),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				eng := newEngine(t, memstore.New(), limit)
				holder := mustAcquire(t, eng, "k")
				ask := func() error {
					return eng.Do(context.Background(), "k", func(context.Context) error {
						time.Sleep(time.Second)
						return nil
					}, core.WithShared())
				}
				var all sync.WaitGroup
				for range 10 {
					all.Go(func() {
						if err := ask(); err != nil {
							t.Error(err)
						}
					})
				}
				synctest.Wait()
				wantOnly(t, ask(), core.ErrTooManyWaiters)
				_, err := eng.AcquireAll(context.Background(), []core.Claim{core.Shared("j"), core.Shared("k")})
				wantOnly(t, err, core.ErrTooManyWaiters)
				mustRelease(t, holder)
				all.Wait()
				if left := eng.Left(); left != "" {
					t.Error(left)
				}
			})
		})
	}
}

// A store that falls silent is out for those in line also where it answered
// another one of several who asked.
func TestSilenceTowardsOneOfSeveral(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spy := newSpy()
		eng := newEngine(t, spy, core.WithCircuit(core.Forever))
		var asked, unanswered atomic.Int32
		spy.onAcquire = func(ctx context.Context, _ driver.Request) error {
			if asked.Add(1) == 3 {
				<-ctx.Done()
				return &core.UnavailableError{Op: "acquire", Err: ctx.Err()}
			}
			time.Sleep(10 * time.Millisecond)
			return nil
		}
		var all sync.WaitGroup
		for range 3 { // the first one's grant lets two more ask
			all.Go(func() {
				l, err := eng.Acquire(context.Background(), "k", core.WithShared(), core.WithMaxWait(5*time.Second))
				if err == nil {
					mustRelease(t, l)
					return
				}
				unanswered.Add(1)
				wantOnly(t, err, core.ErrUnavailable)
			})
			synctest.Wait()
		}
		time.Sleep(time.Second)
		_, err := eng.Acquire(context.Background(), "k", core.WithMaxWait(time.Second))
		wantOnly(t, err, core.ErrUnavailable)
		all.Wait()
		if unanswered.Load() != 1 {
			t.Errorf("%d were not answered", unanswered.Load())
		}
	})
}

// Who has waited long, behind others, has not waited for a store that was asked
// just now: nothing runs unlocked for it.
func TestStoreThatWasJustAskedIsNotSilent(t *testing.T) {
	const patience, roundTrip = time.Second, 50 * time.Millisecond
	set := exclusive("a", "b")
	for name, tc := range map[string]struct {
		held  string         // until just before the patience ends
		front [][]core.Claim // in line, in this order, when it is
		late  []core.Claim   // comes just then, too
		who   []core.Claim
		want  []error
	}{
		"in its second line":      {"a", [][]core.Claim{exclusive("a")}, exclusive("b"), set, []error{core.ErrUnavailable}},
		"behind one in two lines": {"b", [][]core.Claim{exclusive("b"), set}, nil, exclusive("a"), []error{core.ErrHeld, core.ErrWaitTimeout}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				spy := newSpy()
				eng := newEngine(t, spy, core.WithHooks(nothingUnlocked{t: t}.hooks()))
				holder := mustAcquire(t, eng, tc.held)
				var all sync.WaitGroup
				wait := func(claims []core.Claim) {
					all.Go(func() {
						if err := eng.DoAll(context.Background(), claims, func(context.Context) error { return nil }); err != nil {
							t.Error(err)
						}
					})
					synctest.Wait()
				}
				for _, claims := range tc.front {
					wait(claims)
				}
				all.Go(func() {
					err := eng.DoAll(context.Background(), tc.who, func(context.Context) error { return nil }, core.WithMaxWait(patience), core.WithRunUnlocked())
					wantOnly(t, err, tc.want...)
				})
				time.Sleep(patience - roundTrip/2)
				spy.mu.Lock()
				spy.onAcquire = taking(roundTrip)
				spy.mu.Unlock()
				if tc.late != nil {
					wait(tc.late)
				}
				mustRelease(t, holder)
				all.Wait()
			})
		})
	}
}

// Once one reader has to wait for a writer of another process, those who come
// later wait in this process, not at the store.
func TestReadersStopWhenOneHasToWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const roundTrip = 10 * time.Millisecond
		mem := memstore.New()
		spy := newSpy()
		spy.Store = mem
		spy.onAcquire = taking(roundTrip)
		readers, writers := newEngine(t, spy), newEngine(t, mem.Peer())
		first := mustAcquire(t, writers, "k")
		granted := make(chan *core.Lease, 20)
		read := func() { granted <- mustAcquire(t, readers, "k", core.WithShared()) }
		go read()
		go read()
		time.Sleep(time.Second)
		mustRelease(t, first) // one reader is in, and the other one asks
		second := make(chan *core.Lease, 1)
		go func() { second <- mustAcquire(t, writers, "k") }()
		time.Sleep(2 * roundTrip)
		for range 18 {
			go read()
		}
		time.Sleep(2 * roundTrip)
		if n := spy.atStore("k"); n != 1 {
			t.Errorf("%d readers wait at the store", n)
		}
		mustRelease(t, <-granted)
		mustRelease(t, <-second)
		for range 19 {
			mustRelease(t, <-granted)
		}
	})
}

// Money moves between random pairs of accounts, in two processes; nothing waits
// for itself.
func TestTransfersBetweenRandomPairs(t *testing.T) {
	mem := memstore.New()
	engines := []*core.Engine{newEngine(t, mem, core.WithMaxWait(core.Forever)), newEngine(t, mem.Peer(), core.WithMaxWait(core.Forever))}
	const accounts, transfers = 10, 100
	account := func(i int) string { return fmt.Sprint("account:", i) }
	var balance [accounts]int // the race detector looks too
	var every []core.Claim
	for i := range accounts {
		every = append(every, core.Shared(account(i)))
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var all sync.WaitGroup
	for i := range transfers {
		all.Go(func() {
			for range 10 {
				pair := rand.Perm(accounts)[:2]
				err := engines[i%2].DoAll(ctx, exclusive(account(pair[0]), account(pair[1])), func(context.Context) error {
					balance[pair[0]]--
					balance[pair[1]]++
					return nil
				})
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for i := range 10 { // who looks at all of them sees no money on its way
		all.Go(func() {
			err := engines[i%2].DoAll(ctx, every, func(context.Context) error {
				sum := 0
				for _, b := range balance {
					sum += b
				}
				if sum != 0 {
					t.Errorf("%d too much", sum)
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// Whatever is asked for in whatever order by two processes, by callers who give
// up at any time: nobody holds what another excludes, and nothing is left.
func TestModesInAnyOrder(t *testing.T) {
	type request struct {
		claims []core.Claim
		weight map[string]int // of what it holds: 100 is all of a key
	}
	requests := []request{
		{exclusive("g"), map[string]int{"g": 100, "g/a": 100, "g/b": 100}},
		{core.Under("g", "a"), map[string]int{"g/a": 100}},
		{core.Under("g", "b"), map[string]int{"g/b": 100}},
		{[]core.Claim{core.Shared("g")}, map[string]int{"g": 1}},
		{[]core.Claim{core.Permit("p", 4)}, map[string]int{"p": 25}},
		{append(core.Under("g", "a"), core.Permit("p", 4)), map[string]int{"g/a": 100, "p": 25}},
		{[]core.Claim{core.Shared("g"), core.Exclusive("p")}, map[string]int{"g": 1, "p": 100}},
		{exclusive("p"), map[string]int{"p": 100}},
	}
	for round := range 5 {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := memstore.New()
				near, far := newSpy(), newSpy()
				near.Store, far.Store = mem, mem.Peer()
				near.onAcquire, far.onAcquire = taking(time.Millisecond), taking(2*time.Millisecond)
				engines := []*core.Engine{
					newEngine(t, near, core.WithHooks(nothingUnlocked{t: t}.hooks())), newEngine(t, far, core.WithHooks(nothingUnlocked{t: t}.hooks())),
				}
				var mu sync.Mutex
				inside := map[string]int{}
				change := func(r request, by int) {
					mu.Lock()
					defer mu.Unlock()
					for key, w := range r.weight {
						if inside[key] += by * w; inside[key] > 100 {
							t.Errorf("%d hundredths of %s are held with %v", inside[key], key, r.claims)
						}
					}
				}
				var granted, refused atomic.Int64
				var all sync.WaitGroup
				for i := range 80 {
					all.Go(func() {
						for range 20 {
							time.Sleep(rand.N(20 * time.Millisecond))
							ctx, giveUp := context.WithCancel(context.Background())
							if rand.N(4) == 0 {
								time.AfterFunc(rand.N(100*time.Millisecond), giveUp)
							}
							r := requests[rand.N(len(requests))]
							err := engines[i%2].DoAll(ctx, r.claims, func(context.Context) error {
								change(r, 1)
								time.Sleep(rand.N(10 * time.Millisecond))
								change(r, -1)
								return nil
							}, core.WithMaxWait(1+rand.N(2*time.Second)), core.WithRunUnlocked())
							giveUp()
							switch {
							case err == nil:
								granted.Add(1)
							case errors.Is(err, core.ErrWaitTimeout), errors.Is(err, context.Canceled),
								errors.Is(err, core.ErrUnavailable): // there was no time for an answer
								refused.Add(1)
							default:
								t.Error(err)
							}
						}
					})
				}
				all.Wait()
				if granted.Load() < 100 || refused.Load() < 100 {
					t.Errorf("%d granted, %d refused: that shows little", granted.Load(), refused.Load())
				}
				synctest.Wait()
				for _, key := range []string{"g", "g/a", "g/b", "p"} {
					isFree(t, engines[0], key)
				}
				for _, eng := range engines {
					if left := eng.Left(); left != "" {
						t.Error(left)
					}
				}
			})
		})
	}
}

// nothingUnlocked minds when work runs without its lock.
type nothingUnlocked struct {
	t *testing.T
}

func (o nothingUnlocked) hooks() observe.Hooks {
	return observe.Hooks{Unlocked: o.Unlocked}
}

func (o nothingUnlocked) Unlocked(_ context.Context, a observe.Acquisition, err error) {
	o.t.Errorf("%v runs unlocked: %v", a.Claims, err)
}
