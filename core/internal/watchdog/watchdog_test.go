package watchdog_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/internal/watchdog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errSilent = errors.New("no answer")

// store is one whose renewals are noted and answered by a function; nil: all are well.
type store struct {
	driver.Store
	mu      sync.Mutex
	batches [][]driver.Grant
	answer  func(context.Context, driver.Grant) error
}

func (s *store) Renew(ctx context.Context, grants []driver.Grant) []error {
	s.mu.Lock()
	s.batches = append(s.batches, grants)
	answer := s.answer
	s.mu.Unlock()
	errs := make([]error, len(grants))
	for i, g := range grants {
		if answer != nil {
			errs[i] = answer(ctx, g)
		}
	}
	return errs
}

func (s *store) renewed() (batches, grants int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.batches {
		grants += len(b)
	}
	return len(s.batches), grants
}

// holder is a lease's.
type holder struct {
	watch    watchdog.Watch
	grant    driver.Grant
	mu       sync.Mutex
	renewals int
}

func (h *holder) Loss(reason driver.LossReason, _ error) error {
	return &driver.LeaseLostError{Key: h.grant.Claims[0].Key, Reason: reason}
}

func (h *holder) Lost(error) {}

func (h *holder) Renewed(time.Duration, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.renewals++
}

func newDog(t *testing.T, s *store, change func(*watchdog.Config)) *watchdog.Watchdog {
	c := watchdog.Config{
		Store:    s,
		Answered: func([]driver.Claim, error) {},
		Parts:    func([]driver.Claim) string { return "" },
		Replaced: func(context.Context, int) {},
	}
	if change != nil {
		change(&c)
	}
	d := watchdog.New(c)
	t.Cleanup(d.Close)
	return d
}

// watch has a lease watched that was granted just now.
func watch(t *testing.T, d *watchdog.Watchdog, key string, ttl time.Duration) *holder {
	t.Helper()
	now := time.Now()
	h := &holder{grant: driver.Grant{Owner: key, Claims: []driver.Claim{driver.Exclusive(key)}, TTL: ttl, Since: now}}
	h.watch.Begin(d, h, &h.grant, now)
	if !h.watch.Start(now, 0) {
		t.Fatal("not taken in")
	}
	return h
}

// Leases that are due at a time go in one batch, whichever shards they are in.
func TestOneBatchOverAllShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		d := newDog(t, s, nil)
		for i := range 100 {
			watch(t, d, fmt.Sprint("k", i), 30*time.Second)
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(9500 * time.Millisecond) // the first is due 10 s after its grant, the last one joins
		if batches, grants := s.renewed(); batches != 1 || grants != 100 {
			t.Errorf("%d leases renewed in %d batches", grants, batches)
		}
	})
}

// Parts asks the store, which may take a mutex of its own. A holder that holds that mutex must be
// able to ask about its lease meanwhile.
func TestPartsAreAskedForWithoutAMutex(t *testing.T) {
	var h atomic.Pointer[holder]
	answered := make(chan bool, 100)
	d := newDog(t, &store{}, func(c *watchdog.Config) {
		c.Parts = func([]driver.Claim) string {
			asked := make(chan struct{})
			go func() {
				_ = h.Load().watch.Deadline()
				close(asked)
			}()
			select {
			case <-asked:
				answered <- true
			case <-time.After(5 * time.Second):
				answered <- false
			}
			return ""
		}
	})
	now := time.Now()
	own := &holder{grant: driver.Grant{Owner: "o", Claims: []driver.Claim{driver.Exclusive("k")}, TTL: time.Second, Since: now}}
	h.Store(own)
	own.watch.Begin(d, own, &own.grant, now)
	if !own.watch.Start(now, 0) {
		t.Fatal("not taken in")
	}
	if !<-answered {
		t.Error("the lease's mutex was held while the parts of the store were asked for")
	}
}

// Short leases on ever other keys, each shard's first ones among them, do not wake the
// watchdog for each.
func TestLooksAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var clock atomic.Int64 // how often it was looked at
		d := newDog(t, &store{}, func(c *watchdog.Config) {
			c.Wall = func(at time.Time) time.Time { clock.Add(1); return at }
		})
		looks := int64(0)
		for i := range 5000 {
			h := watch(t, d, fmt.Sprint("k", i), 30*time.Second)
			if _, err := h.watch.Release(errSilent); err != nil {
				t.Fatal(err)
			}
			before := clock.Load() // a caller that takes or ends a lease reads it as well
			time.Sleep(time.Millisecond)
			looks += clock.Load() - before
		}
		if looks > 7*16 {
			t.Errorf("%d looks in five seconds", looks)
		}
		time.Sleep(5 * time.Second)
		before := clock.Load()
		time.Sleep(10 * time.Minute)
		if n := clock.Load() - before; n > 0 {
			t.Errorf("%d looks in ten minutes, at nothing", n)
		}
	})
}

// A request that panics leaves the lease to the watchdog, as an unanswered one does.
func TestStorePanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{answer: func(context.Context, driver.Grant) error { panic("store") }}
		d := newDog(t, s, nil)
		h := watch(t, d, "k", 30*time.Second)
		func() {
			defer func() { _ = recover() }()
			_, _ = h.watch.Extend(t.Context(), time.Minute)
		}()
		s.mu.Lock()
		s.answer = nil
		s.mu.Unlock()
		time.Sleep(time.Minute)
		h.mu.Lock()
		defer h.mu.Unlock()
		if err := h.watch.Err(); err != nil || h.renewals == 0 {
			t.Errorf("%v after %d renewals", err, h.renewals)
		}
	})
}
