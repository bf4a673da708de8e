package core_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/memstore"
)

// spy is a memstore that notes what is asked of it and breaks on demand. A
// hook that returns a nil error lets the call through.
type spy struct {
	*memstore.Store

	mu        sync.Mutex
	onAcquire func(context.Context, driver.Request) error // and Begin
	onRenew   func(context.Context, driver.Grant) error
	onRelease func(context.Context, driver.Grant) error
	onRecord  func(context.Context, driver.Grant) error
	asked     []driver.Request
	waiting   map[string]int   // requests at the store per key, now
	mostAtOne int              // the most there ever were for one key
	batches   [][]driver.Grant // of renewals
	renewedAt []time.Time
	released  []driver.Grant
	longest   time.Duration // that a record was to be kept
	closed    int
}

func newSpy() *spy { return &spy{Store: memstore.New(), waiting: make(map[string]int)} }

// peer is a spy of another process, on the same memory.
func (s *spy) peer() *spy { return &spy{Store: s.Peer(), waiting: make(map[string]int)} }

// newSpied is a spy, and an engine on it.
func newSpied(t testing.TB, opts ...core.EngineOption) (*spy, *core.Engine) {
	t.Helper()
	s := newSpy()
	return s, newEngine(t, s, opts...)
}

// change sets a hook while the watchdog may be at work.
func (s *spy) change(how func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	how()
}

// mend has the store answer releases again, so that the engine owes it none.
func (s *spy) mend() { s.change(func() { s.onRelease, s.onRecord = nil, nil }) }

func (s *spy) ask(ctx context.Context, req driver.Request) error {
	s.mu.Lock()
	s.asked = append(s.asked, req)
	hook := s.onAcquire
	s.mu.Unlock()
	if hook == nil {
		return nil
	}
	return hook(ctx, req)
}

func (s *spy) Acquire(ctx context.Context, req driver.Request) (driver.Grant, error) {
	key := req.Claims[0].Key
	s.mu.Lock()
	s.waiting[key]++
	s.mostAtOne = max(s.mostAtOne, s.waiting[key])
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.waiting[key]--
	}()
	if err := s.ask(ctx, req); err != nil {
		return driver.Grant{}, err
	}
	return s.Store.Acquire(ctx, req)
}

func (s *spy) Begin(ctx context.Context, req driver.Request) (driver.Grant, *driver.Record, error) {
	if err := s.ask(ctx, req); err != nil {
		return driver.Grant{}, nil, err
	}
	return s.Store.Begin(ctx, req)
}

func (s *spy) Renew(ctx context.Context, grants []driver.Grant) []error {
	s.mu.Lock()
	s.batches = append(s.batches, grants)
	s.renewedAt = append(s.renewedAt, time.Now())
	hook := s.onRenew
	s.mu.Unlock()
	errs := make([]error, len(grants))
	for i, g := range grants {
		if hook != nil {
			if errs[i] = hook(ctx, g); errs[i] != nil {
				continue
			}
		}
		errs[i] = s.Store.Renew(ctx, []driver.Grant{g})[0]
	}
	return errs
}

func (s *spy) Release(ctx context.Context, g driver.Grant) error {
	s.mu.Lock()
	s.released = append(s.released, g)
	hook := s.onRelease
	s.mu.Unlock()
	if hook != nil {
		if err := hook(ctx, g); err != nil {
			return err
		}
	}
	return s.Store.Release(ctx, g)
}

func (s *spy) Complete(ctx context.Context, g driver.Grant, rec driver.Record, retention time.Duration) error {
	s.mu.Lock()
	hook := s.onRecord
	s.longest = max(s.longest, retention)
	s.mu.Unlock()
	if hook != nil {
		if err := hook(ctx, g); err != nil {
			return err
		}
	}
	return s.Store.Complete(ctx, g, rec, retention)
}

func (s *spy) Close() error {
	s.mu.Lock()
	s.closed++
	s.mu.Unlock()
	return s.Store.Close()
}

func (s *spy) renewals() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.batches)
}

func (s *spy) requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.asked)
}

func (s *spy) releases() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.released)
}

// late is a spy after whose grants something happens before the engine has them.
type late struct {
	*spy
	then func()
}

func (s *late) Acquire(ctx context.Context, req driver.Request) (driver.Grant, error) {
	g, err := s.spy.Acquire(ctx, req)
	if err == nil {
		s.then()
	}
	return g, err
}

// lateBy is late by so much.
func lateBy(d time.Duration) *late { return &late{newSpy(), func() { time.Sleep(d) }} }

// breakLock takes the key from its holder, behind the engine's back.
func breakLock(t *testing.T, s *spy, l *core.Lease) {
	t.Helper()
	must(t, s.Store.Release(bg, driver.Grant{Owner: l.Owner(), Claims: l.Claims(), Token: l.Token()}))
}

// cutOff has every request fail.
func (s *spy) cutOff() {
	down := func(context.Context, driver.Grant) error { return errDown }
	s.change(func() {
		s.onAcquire = func(context.Context, driver.Request) error { return errDown }
		s.onRenew, s.onRelease = down, down
	})
}

// reach ends cutOff.
func (s *spy) reach() { s.change(func() { s.onAcquire, s.onRenew, s.onRelease = nil, nil, nil }) }

func (s *spy) atStore(key string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting[key]
}
