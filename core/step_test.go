package core_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/store/memstore"
)

// taking makes each request take a round trip, so that it shows which ones go
// together.
func taking(d time.Duration) func(context.Context, core.Request) error {
	return func(context.Context, core.Request) error { time.Sleep(d); return nil }
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
		readers := newEngine(t, spy, core.WithMaxWait(0))
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
		eng := newEngine(t, spy, core.WithMaxWait(0))
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
		eng := newEngine(t, memstore.New(), core.WithMaxWait(0))
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
		eng := newEngine(t, spy, core.WithCircuit(0))
		var asked, unanswered atomic.Int32
		spy.onAcquire = func(ctx context.Context, _ core.Request) error {
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
	engines := []*core.Engine{newEngine(t, mem, core.WithMaxWait(0)), newEngine(t, mem.Peer(), core.WithMaxWait(0))}
	const accounts, transfers = 10, 100
	balance := [accounts]int{}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var all sync.WaitGroup
	for i := range transfers {
		from, to := i%accounts, (i*7+i/accounts+1)%accounts
		if from == to {
			to = (to + 1) % accounts
		}
		all.Go(func() {
			claims := []core.Claim{core.Exclusive(fmt.Sprint("account:", from)), core.Exclusive(fmt.Sprint("account:", to))}
			if i%5 == 0 { // and some look at all of them
				claims = nil
				for a := range accounts {
					claims = append(claims, core.Shared(fmt.Sprint("account:", a)))
				}
			}
			for range 10 {
				err := engines[i%2].DoAll(ctx, claims, func(context.Context) error {
					if i%5 == 0 {
						sum := 0
						for _, b := range balance {
							sum += b
						}
						if sum != 0 {
							return errors.New("money was made or lost")
						}
						return nil
					}
					balance[from]--
					balance[to]++
					return nil
				})
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}
