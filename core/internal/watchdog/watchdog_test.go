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

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/internal/watchdog"
)

var errSilent = errors.New("no answer")

// store is one whose renewals are noted and answered by a function; nil: all are well.
type store struct {
	driver.Store
	mu      sync.Mutex
	batches [][]driver.Grant
	answer  func(context.Context, driver.Grant) error
	server  string

	downgrades []driver.Grant
	said       error // to downgrades
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

func (s *store) identity(context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.server, nil
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
	lost     []error
	renewals int
}

func (h *holder) Loss(reason driver.LossReason, _ error) error {
	return &driver.LeaseLostError{Key: h.grant.Claims[0].Key, Reason: reason}
}

func (h *holder) Lost(why error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lost = append(h.lost, why)
}

func (h *holder) Renewed(time.Duration, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.renewals++
}

func (s *store) Downgrade(_ context.Context, g driver.Grant) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.downgrades = append(s.downgrades, g)
	return s.said
}

func (h *holder) losses() []error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lost
}

func newDog(t *testing.T, s *store, change func(*watchdog.Config)) *watchdog.Watchdog {
	c := watchdog.Config{
		Store:    s,
		Identity: s.identity,
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

// A part of the store that fails by itself has batches of its own, and so have leases
// with terms of another size.
func TestBatchesApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{server: "one"}
		d := newDog(t, s, func(c *watchdog.Config) {
			c.Parts = func(claims []driver.Claim) string { return claims[0].Key[:1] }
		})
		for _, key := range []string{"a1", "a2", "b1"} {
			watch(t, d, key, 30*time.Second)
		}
		watch(t, d, "a3", 100*time.Second)
		time.Sleep(1500 * time.Millisecond) // it knows the server by now
		s.mu.Lock()
		s.server = "two" // all are due now
		s.mu.Unlock()
		time.Sleep(time.Second)
		if batches, grants := s.renewed(); batches != 3 || grants != 4 {
			t.Errorf("%d leases renewed in %d batches, want 4 in 3", grants, batches)
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

func TestLoss(t *testing.T) {
	for name, tc := range map[string]struct {
		answer error
		after  time.Duration
		reason driver.LossReason
	}{
		"the store says so":   {&driver.LeaseLostError{Key: "k", Reason: driver.LossTaken}, 10 * time.Second, driver.LossTaken},
		"the store is silent": {errSilent, 30*time.Second - watchdog.Margin(30*time.Second), driver.LossExpired},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &store{answer: func(context.Context, driver.Grant) error { return tc.answer }}
				d := newDog(t, s, nil)
				h := watch(t, d, "k", 30*time.Second)
				time.Sleep(tc.after - time.Millisecond)
				if err := h.watch.Err(); err != nil || len(h.losses()) > 0 {
					t.Errorf("lost too early: %v", err)
				}
				time.Sleep(2 * time.Millisecond)
				var told *driver.LeaseLostError
				if losses := h.losses(); len(losses) != 1 || !errors.As(losses[0], &told) || told.Reason != tc.reason {
					t.Errorf("told of %v", losses)
				}
				asked, _ := s.renewed()
				time.Sleep(time.Minute)
				if again, _ := s.renewed(); again != asked || len(h.losses()) != 1 {
					t.Errorf("a minute later the store was asked %d times more, and the holder told of %v", again-asked, h.losses())
				}
				if _, err := h.watch.Release(errSilent); !errors.Is(err, driver.ErrLeaseLost) {
					t.Errorf("its release says %v", err)
				}
			})
		})
	}
}

// After the machine has slept every lease is looked at, also one behind others that are
// in force.
func TestSleepEndsAnyLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slept atomic.Int64
		d := newDog(t, &store{}, func(c *watchdog.Config) {
			c.Wall = func(at time.Time) time.Time { return at.Add(time.Duration(slept.Load())) }
		})
		short := watch(t, d, "k", 60*time.Second)
		now := time.Now()
		first := &holder{grant: driver.Grant{Owner: "first", Claims: []driver.Claim{driver.Exclusive("k")}, TTL: 10 * time.Hour, Since: now}}
		first.watch.Begin(d, first, &first.grant, now)
		first.watch.Start(now, 10*time.Second) // due for a look before the other is
		time.Sleep(1500 * time.Millisecond)
		slept.Store(int64(2 * time.Minute))
		time.Sleep(time.Second)
		var told *driver.LeaseLostError
		if losses := short.losses(); len(losses) != 1 || !errors.As(losses[0], &told) || told.Reason != driver.LossSuspended {
			t.Errorf("told of %v", losses)
		}
		if err := first.watch.Err(); err != nil {
			t.Error(err)
		}
	})
}

// A holder that finds out first, by Err, is not told again; nor is one that lets its
// lease be ended.
func TestHolderIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDog(t, &store{}, nil)
		h := watch(t, d, "k", 30*time.Second)
		if err := h.watch.Lose(h.Loss(driver.LossClosed, nil)); !errors.Is(err, driver.ErrLeaseLost) {
			t.Errorf("lost with %v", err)
		}
		time.Sleep(time.Minute)
		if n := len(h.losses()); n != 0 {
			t.Errorf("told %d times", n)
		}
	})
}

// While a change is unanswered there is no other request, and a release waits for
// neither.
func TestOneRequestAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		under, most := 0, 0
		var mu sync.Mutex
		s := &store{answer: func(ctx context.Context, _ driver.Grant) error {
			mu.Lock()
			under++
			most = max(most, under)
			mu.Unlock()
			<-ctx.Done()
			mu.Lock()
			under--
			mu.Unlock()
			return errSilent
		}}
		d := newDog(t, s, nil)
		h := watch(t, d, "k", 30*time.Second)
		time.Sleep(9 * time.Second)
		var changes sync.WaitGroup
		for range 3 {
			changes.Go(func() { _, _ = h.watch.Extend(t.Context(), time.Minute) })
		}
		time.Sleep(15 * time.Second)
		mu.Lock()
		if _, n := s.renewed(); most != 1 || n < 2 {
			t.Errorf("%d requests under way at a time, of %d", most, n)
		}
		mu.Unlock()
		before := time.Now()
		if _, err := h.watch.Release(errSilent); err != nil || time.Since(before) > 0 {
			t.Errorf("release: %v after %v", err, time.Since(before))
		}
		changes.Wait()
		if h.watch.Err() != errSilent {
			t.Errorf("ended with %v", h.watch.Err())
		}
	})
}

// A change that waits for another one goes on as soon as that is answered.
func TestChangesFollowEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{answer: func(context.Context, driver.Grant) error {
			time.Sleep(time.Second)
			return nil
		}}
		h := watch(t, newDog(t, s, nil), "k", 30*time.Second)
		began := time.Now()
		var changes sync.WaitGroup
		for range 3 {
			changes.Go(func() {
				if sent, err := h.watch.Extend(t.Context(), time.Minute); !sent || err != nil {
					t.Errorf("sent %v, %v", sent, err)
				}
			})
		}
		changes.Wait()
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("three took %v", took)
		}
	})
}

// An unanswered downgrade is repeated in place of renewals until it is answered.
func TestDowngradeIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		d := newDog(t, s, nil)
		h := watch(t, d, "k", 30*time.Second)
		s.said = errSilent
		shared := []driver.Claim{driver.Shared("k")}
		if sent, err := h.watch.Downgrade(t.Context(), shared); !sent || err != errSilent {
			t.Errorf("sent %v, %v", sent, err)
		}
		time.Sleep(10 * time.Second)
		s.mu.Lock()
		n := len(s.downgrades)
		s.said = nil
		s.mu.Unlock()
		if _, renewals := s.renewed(); n < 3 || renewals != 0 {
			t.Errorf("%d downgrades, %d renewals", n, renewals)
		}
		time.Sleep(20 * time.Second)
		s.mu.Lock()
		again := len(s.downgrades)
		s.mu.Unlock()
		if _, renewals := s.renewed(); again != n+1 || renewals == 0 {
			t.Errorf("%d more downgrades, %d renewals", again-n, renewals)
		}
		if g, _ := h.watch.Grant(); g.Claims[0].Mode != driver.ModeShared || h.watch.Err() != nil {
			t.Errorf("%v, %v", g.Claims, h.watch.Err())
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
