package core_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
)

// setStore grants sets, in this process and without expiry: enough of a store
// to show what the engine does with several lines at once.
type setStore struct {
	driver.Unsupported
	mu    sync.Mutex
	held  map[string]string // key to owner
	freed chan struct{}     // closed by the next release
	asked [][]core.Claim
}

func newSetStore() *setStore {
	return &setStore{held: map[string]string{}, freed: make(chan struct{})}
}

func (s *setStore) Describe() driver.Description { return driver.Description{Sets: true} }

func (s *setStore) Acquire(ctx context.Context, req driver.Request) (driver.Grant, error) {
	s.mu.Lock()
	s.asked = append(s.asked, req.Claims)
	s.mu.Unlock()
	for told := false; ; {
		s.mu.Lock()
		freed, by := s.freed, s.inTheWay(req)
		s.mu.Unlock()
		if by == nil {
			return driver.Grant{Owner: req.Owner, Claims: req.Claims, TTL: req.TTL, Token: 1}, nil
		}
		if !told && req.OnHeld != nil {
			req.OnHeld(*by)
			told = true
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return driver.Grant{}, by
		}
	}
}

// inTheWay takes all keys of req unless somebody has one of them.
func (s *setStore) inTheWay(req driver.Request) *core.HeldError {
	for _, c := range req.Claims {
		if by := s.held[c.Key]; by != "" {
			return &core.HeldError{Key: c.Key, Holder: by}
		}
	}
	for _, c := range req.Claims {
		s.held[c.Key] = req.Owner
	}
	return nil
}

func (s *setStore) Renew(_ context.Context, grants []driver.Grant) []error {
	return make([]error, len(grants))
}

func (s *setStore) Release(_ context.Context, g driver.Grant) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range g.Claims {
		if s.held[c.Key] != g.Owner {
			return &core.LeaseLostError{Key: c.Key}
		}
		delete(s.held, c.Key)
	}
	close(s.freed)
	s.freed = make(chan struct{})
	return nil
}

func (s *setStore) Close() error { return nil }

func exclusive(keys ...string) (claims []core.Claim) {
	for _, k := range keys {
		claims = append(claims, core.Exclusive(k))
	}
	return claims
}

// Sets that overlap, named in any order, take their turns without waiting for
// each other in a circle.
func TestOverlappingSetsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newSetStore()
		eng := newEngine(t, store, core.WithMaxWait(core.Forever))
		var guard sync.Mutex
		inside := map[string]int{}
		var all sync.WaitGroup
		sets := [][]string{{"a", "b"}, {"b", "a"}, {"c", "b"}, {"a", "c"}, {"c", "b", "a"}, {"b"}}
		for i := range 120 {
			all.Go(func() {
				keys := sets[i%len(sets)]
				err := eng.DoAll(context.Background(), exclusive(keys...), func(context.Context) error {
					guard.Lock()
					for _, k := range keys {
						if inside[k]++; inside[k] > 1 {
							t.Errorf("%d hold %s", inside[k], k)
						}
					}
					guard.Unlock()
					time.Sleep(rand.N(10 * time.Millisecond))
					guard.Lock()
					defer guard.Unlock()
					for _, k := range keys {
						inside[k]--
					}
					return nil
				})
				wantNil(t, err)
			})
		}
		all.Wait()
		for _, claims := range store.asked {
			if !slices.IsSortedFunc(claims, func(a, b core.Claim) int { return strings.Compare(a.Key, b.Key) }) {
				t.Errorf("asked for %v", claims)
			}
		}
		if left := eng.Left(); left != "" {
			t.Errorf("left: %s", left)
		}
	})
}

// A caller behind a set that waits in another line has not waited because of the store: nobody
// asked the store.
func TestLineBehindASetThatWaitsElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eng := newEngine(t, newSetStore(), core.WithMaxHold(core.Forever))
		b := mustAcquire(t, eng, "b")
		wait := func(maxWait time.Duration, keys ...string) {
			_, err := eng.AcquireAll(context.Background(), exclusive(keys...), core.WithMaxWait(maxWait))
			wantOnly(t, err, core.ErrHeld, core.ErrWaitTimeout)
		}
		var all sync.WaitGroup
		all.Go(func() { wait(time.Minute, "b") })
		synctest.Wait()
		all.Go(func() { wait(time.Minute, "a", "b") }) // the head of a, and second for b
		synctest.Wait()
		all.Go(func() { wait(time.Second, "a") })
		all.Wait()
		mustRelease(t, b)
		isFree(t, eng, "a")
		isFree(t, eng, "b")
	})
}
