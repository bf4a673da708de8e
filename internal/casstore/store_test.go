package casstore_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/casstore"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/keystate"
	"github.com/keyturn/keyturn/internal/lifetime"
	"github.com/keyturn/keyturn/internal/waitloop"
)

var (
	must    = checktest.Must
	check   = checktest.That
	wantNil = checktest.WantNil
	wantIs  = checktest.WantIs
)

// backend has keys in memory. A write is refused if somebody else has written since the read.
type backend struct {
	mu     sync.Mutex
	keys   map[string]*keystate.Key
	writes int
	forced string // the reason of all losses
	bells  map[string]waitloop.Bell

	between func() // called once, between a read and its write
	silent  chan struct{}
	unsure  bool // an attempt had no answer
}

// read copies a key, so that a decision that is not written leaves nothing behind.
func read(from *keystate.Key, name string) *keystate.Key {
	k := &keystate.Key{Name: name}
	if from == nil {
		return k
	}
	k.Phase, k.Last, k.Arrived, k.Record = from.Phase, from.Last, from.Arrived, from.Record
	for _, m := range append(append([]*keystate.Member{}, from.Holders()...), from.Waiters()...) {
		n := *m
		k.Add(&n)
	}
	return k
}

func (b *backend) Transact(ctx context.Context, a casstore.Aim, decide func(*keystate.State) error) (bool, error) {
	if b.silent != nil {
		<-b.silent // whatever ctx says
	}
	for {
		b.mu.Lock()
		st, seen := &keystate.State{Now: time.Now()}, b.writes
		for _, key := range a.Keys {
			st.Keys = append(st.Keys, read(b.keys[key], key))
		}
		between := b.between
		b.between = nil
		b.mu.Unlock()
		if err := decide(st); err != nil {
			return false, err
		}
		if between != nil {
			between()
		}
		b.mu.Lock()
		if b.writes != seen {
			b.mu.Unlock()
			continue
		}
		b.writes++
		for _, k := range st.Keys {
			b.keys[k.Name] = k
		}
		for _, w := range st.Woken {
			b.bells[w.Owner].Ring()
		}
		b.mu.Unlock()
		return b.unsure, nil
	}
}

func (b *backend) Explain(_ context.Context, _ string, loss *driver.LeaseLostError) error {
	if b.forced != "" {
		loss.Reason, loss.Detail = driver.LossForced, b.forced
	}
	return nil
}

func (b *backend) Failure(op, key string, err error) error {
	return &driver.UnavailableError{Op: op, Key: key, Err: err}
}

type store struct {
	*backend
	ops   casstore.Store
	calls lifetime.Lifetime
}

func open(t *testing.T) *store {
	s := &store{backend: &backend{keys: map[string]*keystate.Key{}, bells: map[string]waitloop.Bell{}}}
	life, end := context.WithCancel(context.Background())
	s.ops = casstore.Store{Calls: &s.calls, Life: life, Hard: life, Backend: casstore.Backend{
		Check: driver.CheckLease, Acquire: s.ask, Transact: s.Transact, Explain: s.Explain, Failure: s.Failure,
	}}
	t.Cleanup(func() {
		end()
		wantNil(t, s.calls.Close(func() error { return s.calls.Drain("store", nil) }))
	})
	return s
}

func (s *store) acquire(ctx context.Context, owner string, wait bool) (driver.Grant, error) {
	return s.ops.Acquire(ctx, driver.Request{Owner: owner, Claims: []driver.Claim{driver.Exclusive("k")}, TTL: time.Minute, Wait: wait})
}

func (s *store) ask(ctx context.Context, r keystate.Request) (casstore.Answer, error) {
	a := &casstore.Acquisition{Store: &s.ops, Request: r, Within: time.Hour, Wake: waitloop.NewBell()}
	s.mu.Lock()
	s.bells[r.Owner] = a.Wake
	s.mu.Unlock()
	a.Question = func(ctx context.Context) (ans casstore.Answer, err error) {
		sent := time.Now()
		_, err = s.Transact(ctx, casstore.Aim{Keys: driver.Keys(a.Claims)}, func(st *keystate.State) error {
			got, err := st.Acquire(&a.Request)
			if err == nil {
				ans = a.Answer(got, sent)
			}
			return err
		})
		return ans, err
	}
	return a.Run(ctx)
}

func (s *store) holders() (owners []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range read(s.keys["k"], "k").Holders() {
		owners = append(owners, m.Owner)
	}
	return owners
}

// TestDecidesAnew: somebody is quicker between a read and its write.
func TestDecidesAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		s.between = func() {
			wantNil(t, checktest.ErrorOf(s.acquire(t.Context(), "quicker", false)))
		}
		var held *driver.HeldError
		_, err := s.acquire(t.Context(), "slower", false)
		check(t, errors.As(err, &held) && held.Holder == "quicker", "the slower one got %v", err)
	})
}

// TestWaiterIsWoken by a release, and a forced release says why to the holder.
func TestWaiterIsWoken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		g, err := s.acquire(t.Context(), "first", false)
		must(t, err)
		waiter := make(chan driver.Grant)
		go func() {
			g, err := s.acquire(t.Context(), "second", true)
			wantNil(t, err)
			waiter <- g
		}()
		synctest.Wait()
		if gone, err := s.ops.ForceRelease(t.Context(), "k", "stuck"); err != nil || len(gone) != 1 || gone[0].Owner != "first" {
			t.Fatal(gone, err)
		}
		second := <-waiter
		s.forced = "stuck"
		var loss *driver.LeaseLostError
		err = s.ops.Release(t.Context(), g, nil)
		check(t, errors.As(err, &loss) && loss.Detail == "stuck", "the first holder's release: %v", err)
		err = s.ops.Release(t.Context(), second, nil)
		check(t, err == nil && len(s.holders()) == 0, "the second holder's release: %v, and %v hold the key", err, s.holders())
	})
}

// TestLateGrantIsUndone: the backend answers after the caller has gone.
func TestLateGrantIsUndone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		s.silent = make(chan struct{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		wantIs(t, "without an answer", checktest.ErrorOf(s.acquire(ctx, "gone", false)), driver.ErrUnavailable)
		s.ops.Left = time.Hour // after a TTL, what is left of a place in the queue would still be in the way
		back := time.Now().Add(2 * time.Minute)
		s.ops.Transact = func(ctx context.Context, a casstore.Aim, decide func(*keystate.State) error) (bool, error) {
			if time.Now().Before(back) {
				return false, errors.New("out")
			}
			return s.Transact(ctx, a, decide)
		}
		close(s.silent)
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		check(t, s.writes >= 2 && len(s.holders()) == 0, "after %d writes %v hold the key", s.writes, s.holders())
	})
}

// TestLateForceEndsNothing: the lease that it would end may be one that its caller never saw.
func TestLateForceEndsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		must(t, checktest.ErrorOf(s.acquire(t.Context(), "o", false)))
		s.silent = make(chan struct{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		wantIs(t, "without an answer", checktest.ErrorOf(s.ops.ForceRelease(ctx, "k", "stuck")), driver.ErrUnavailable)
		close(s.silent)
		synctest.Wait()
		check(t, len(s.holders()) == 1, "%v hold the key", s.holders())
	})
}

// TestRepeatedRelease: the first attempt had no answer, and has ended the lease.
func TestRepeatedRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		g, err := s.acquire(t.Context(), "o", false)
		must(t, err)
		must(t, s.ops.Release(t.Context(), g, nil))
		wantIs(t, "a second release", s.ops.Release(t.Context(), g, nil), driver.ErrLeaseLost)
		s.unsure = true
		wantIs(t, "a release that was sent twice", s.ops.Release(t.Context(), g, nil), nil)
		s.unsure = false
		s.ops.Run = func(ctx context.Context, _ []string, work func(context.Context) error, _ func()) (error, bool) {
			_ = work(ctx)
			return work(ctx), true
		}
		tries := 0
		short := func(context.Context) (done, unsure bool, err error) { tries++; return false, tries == 1, nil }
		wantIs(t, "the same, of which the first was the quicker way", s.ops.Release(t.Context(), g, short), nil)
	})
}

// TestForceInSteps: a backend that ends two leases at a time ends all five, and not that of a reader who comes
// meanwhile.
func TestForceInSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		s.ops.Forces = 2
		read := func(owner string) {
			_, err := s.ops.Acquire(t.Context(), driver.Request{Owner: owner, Claims: []driver.Claim{driver.Shared("k")}, TTL: time.Minute})
			wantNil(t, err)
		}
		for _, owner := range []string{"a", "b", "c", "d", "e"} {
			read(owner)
		}
		s.between = func() { s.between = func() { read("late") } } // before the second step
		gone, err := s.ops.ForceRelease(t.Context(), "k", "stuck")
		check(t, err == nil && len(gone) == 5, "ended %v, %v", gone, err)
		left := s.holders()
		check(t, len(left) == 1 && left[0] == "late", "%v hold the key", left)
	})
}

// TestForceThatIsUnsure: a server refuses the last attempt, and an earlier one may have been carried out.
func TestForceThatIsUnsure(t *testing.T) {
	s := open(t)
	s.ops.Failure = func(string, string, error) error { return &driver.UnavailableError{Refused: true} }
	s.ops.Transact = func(context.Context, casstore.Aim, func(*keystate.State) error) (bool, error) {
		return true, errors.New("read-only")
	}
	var out *driver.UnavailableError
	_, err := s.ops.ForceRelease(t.Context(), "k", "stuck")
	check(t, errors.As(err, &out) && !out.Refused, "an unsure attempt counts as refused: %v", err)
}
