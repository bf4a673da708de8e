package main_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/store/memstore"
)

// lockServer is a model of a lock server that a fleet shares. It serves one request at a time, and each
// takes as long as Redis takes for it.
type lockServer struct {
	mem  *memstore.Store
	busy chan struct{} // full while it serves a request
	out  atomic.Pointer[blackout]

	mu       sync.Mutex
	arrivals map[string][]time.Time // by operation
}

// blackout is a time without answers.
type blackout struct {
	silent bool // requests get no answer until it is over; otherwise they are refused at once
	over   chan struct{}
}

// What a request costs the server, as measured on Redis 7.0 (docs/scale.md).
const (
	costOfRequest = 12 * time.Microsecond
	costOfRenewal = 3 * time.Microsecond // of each lease
)

func newServer() *lockServer {
	return &lockServer{mem: memstore.New(), busy: make(chan struct{}, 1), arrivals: make(map[string][]time.Time)}
}

// serve waits for the server, and returns an error during an outage.
func (s *lockServer) serve(ctx context.Context, op string, cost time.Duration) error {
	s.mu.Lock()
	s.arrivals[op] = append(s.arrivals[op], time.Now())
	s.mu.Unlock()
	if o := s.out.Load(); o != nil {
		if !o.silent {
			time.Sleep(200 * time.Microsecond)
			return &core.UnavailableError{Op: op, Err: errors.New("connection refused")}
		}
		select {
		case <-o.over:
		case <-ctx.Done():
			return &core.UnavailableError{Op: op, Err: errors.New("no answer")}
		}
	}
	select {
	case s.busy <- struct{}{}:
	case <-ctx.Done():
		return &core.UnavailableError{Op: op, Err: errors.New("no answer")}
	}
	time.Sleep(cost)
	<-s.busy
	return nil
}

// fail begins an outage. The function that it returns ends it.
func (s *lockServer) fail(silent bool) (mend func()) {
	o := &blackout{silent: silent, over: make(chan struct{})}
	s.out.Store(o)
	return func() {
		s.out.Store(nil)
		close(o.over)
	}
}

// peak returns the most requests of an operation that arrived within 10 ms, from a moment on.
func (s *lockServer) peak(op string, from time.Time) (most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	per := make(map[time.Duration]int)
	for _, at := range s.arrivals[op] {
		if !at.Before(from) {
			i := at.Sub(from) / (10 * time.Millisecond)
			per[i]++
			most = max(most, per[i])
		}
	}
	return most
}

// fleetStore is the server as one process sees it.
type fleetStore struct {
	driver.Store
	server *lockServer
}

// Describe says that the server has other processes, too.
func (c fleetStore) Describe() driver.Description {
	about := c.Store.Describe()
	about.Local = false
	return about
}

func (c fleetStore) Acquire(ctx context.Context, req driver.Request) (driver.Grant, error) {
	if err := c.server.serve(ctx, "acquire", costOfRequest); err != nil {
		return driver.Grant{}, err
	}
	return c.Store.Acquire(ctx, req)
}

func (c fleetStore) Renew(ctx context.Context, grants []driver.Grant) []error {
	if err := c.server.serve(ctx, "renew", costOfRequest+time.Duration(len(grants))*costOfRenewal); err != nil {
		errs := make([]error, len(grants))
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	return c.Store.Renew(ctx, grants)
}

func (c fleetStore) Release(ctx context.Context, g driver.Grant) error {
	if err := c.server.serve(ctx, "release", costOfRequest); err != nil {
		return err
	}
	return c.Store.Release(ctx, g)
}

// fleet is a thousand processes. Each holds leases, and takes a key of its own every two seconds.
type fleet struct {
	server  *lockServer
	engines []*core.Engine
	held    [][]*core.Lease
	served  []atomic.Pointer[time.Time] // when each process last got its own key
	all     sync.WaitGroup
	stop    context.CancelFunc
}

const (
	processes     = 1000
	leasesPerProc = 6
)

// start starts all processes at the same time, more or less.
func start(t *testing.T) *fleet {
	f := &fleet{
		server: newServer(), held: make([][]*core.Lease, processes), served: make([]atomic.Pointer[time.Time], processes),
	}
	ctx, stop := context.WithCancel(context.Background())
	f.stop = stop
	var ready sync.WaitGroup
	for i := range processes {
		eng, err := core.New(fleetStore{f.server.mem.Peer(), f.server}, core.WithLogger(slog.New(slog.DiscardHandler)))
		must(t, err)
		f.engines = append(f.engines, eng)
		ready.Go(func() {
			time.Sleep(rand.N(time.Millisecond))
			for j := range leasesPerProc {
				l, err := eng.Acquire(ctx, fmt.Sprintf("held:%d:%d", i, j))
				if err != nil {
					t.Errorf("process %d: %v", i, err)
					return
				}
				f.held[i] = append(f.held[i], l)
			}
		})
		f.all.Go(func() {
			for key := fmt.Sprintf("own:%d", i); ctx.Err() == nil; {
				if l, err := eng.TryAcquire(ctx, key); err == nil {
					now := time.Now()
					f.served[i].Store(&now)
					_ = l.Release(ctx)
				}
				select {
				case <-time.After(time.Second + rand.N(2*time.Second)):
				case <-ctx.Done():
				}
			}
		})
	}
	ready.Wait()
	return f
}

// lost returns how many of the leases that nobody released are lost.
func (f *fleet) lost() (n int) {
	for _, held := range f.held {
		for _, l := range held[1:] {
			if l.Err() != nil {
				n++
			}
		}
	}
	return n
}

func (f *fleet) end() {
	f.stop()
	for i, eng := range f.engines {
		f.all.Go(func() {
			for _, l := range f.held[i] {
				_ = l.Release(context.Background())
			}
			_ = eng.Close(context.Background())
		})
	}
	f.all.Wait()
}

// TestStampede: after an outage, all processes renew their leases, send the releases that were not
// answered, and take new leases. They must not do it all at once, also if all were started at the
// same moment.
func TestStampede(t *testing.T) {
	servertest.Long(t)
	for _, silent := range []bool{false, true} {
		t.Run(fmt.Sprintf("silent=%v", silent), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { stampede(t, silent) })
		})
	}
}

func stampede(t *testing.T, silent bool) {
	f := start(t)
	defer f.end()
	s := f.server
	began := time.Now()
	time.Sleep(35 * time.Second)
	renewals := s.peak("renew", began)
	if most := processes / 20; renewals > most {
		t.Errorf("%d of %d processes renewed within 10 ms, want %d at most", renewals, processes, most)
	}

	mend := s.fail(silent)
	for i := range f.held { // a release each that has no answer
		f.all.Go(func() {
			time.Sleep(rand.N(time.Second))
			_ = f.held[i][0].Release(context.Background())
		})
	}
	time.Sleep(8 * time.Second)
	mended := time.Now()
	mend()

	released := func() (n int) {
		for i := range f.held {
			if info, err := s.mem.Inspect(context.Background(), f.held[i][0].Key()); err == nil && len(info.Holders) == 0 {
				n++
			}
		}
		return n
	}
	time.Sleep(time.Second)
	if n := released(); n < processes {
		t.Errorf("a second after the server is back, %d of %d keys are released", n, processes)
	}
	time.Sleep(4 * time.Second)
	for i := range f.served {
		if at := f.served[i].Load(); at == nil || at.Before(mended) {
			t.Errorf("process %d was not served within 5 s of the server's return", i)
		}
	}
	time.Sleep(25 * time.Second)
	renew, release, acquire := s.peak("renew", mended), s.peak("release", mended), s.peak("acquire", mended)
	// After 8 s without a renewal of a TTL of 15 s there is less time to spread them over than before.
	if most := processes / 10; renew > most || acquire > most {
		t.Errorf("after the outage, %d renewals and %d acquisitions came within 10 ms, want %d at most of each", renew, acquire, most)
	}
	if most := 2 * processes; release > most {
		t.Errorf("after the outage, %d releases came within 10 ms, want %d at most", release, most)
	}
	if n := f.lost(); n > 0 {
		t.Errorf("%d leases were lost in an outage of 8 s at the default TTL", n)
	}
	t.Logf("within 10 ms at most: %d renewals before; after: %d renewals, %d releases, %d acquisitions", renewals, renew, release, acquire)
}

// TestTurnsOfAFleet: a thousand processes want one key all the time. Each gets it as often as any
// other.
func TestTurnsOfAFleet(t *testing.T) {
	servertest.Long(t)
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		ctx, stop := context.WithCancel(context.Background())
		var all sync.WaitGroup
		var turns [processes]int
		for i := range processes {
			eng, err := core.New(fleetStore{s.mem.Peer(), s}, core.WithMaxWait(core.Forever))
			must(t, err)
			all.Go(func() {
				defer eng.Close(context.Background())
				for {
					l, err := eng.Acquire(ctx, "hot")
					if err != nil {
						return
					}
					turns[i]++
					time.Sleep(time.Millisecond)
					_ = l.Release(context.Background())
				}
			})
		}
		time.Sleep(10 * time.Second)
		stop()
		all.Wait()
		if least, most := slices.Min(turns[:]), slices.Max(turns[:]); least < 5 || most > least+1 {
			t.Errorf("the processes had the key %d to %d times", least, most)
		}
	})
}
