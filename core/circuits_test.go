package core_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
)

// shards is a store of several servers: what stands in front of a key's colon names
// the one that has it. Those in down refuse.
type shards struct {
	*spy
	down  map[string]bool
	asked map[string]int
}

func newShards() *shards {
	s := &shards{spy: newSpy(), down: make(map[string]bool), asked: make(map[string]int)}
	s.onAcquire = func(_ context.Context, req driver.Request) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, c := range req.Claims {
			at := partition(c.Key)
			s.asked[at]++
			if s.down[at] {
				return &core.UnavailableError{Op: "acquire", Key: c.Key, Err: errDown}
			}
		}
		return nil
	}
	return s
}

func partition(key string) string {
	at, _, _ := strings.Cut(key, ":")
	return at
}

func (s *shards) Describe() driver.Description {
	d := s.spy.Describe()
	d.Partition = partition
	return d
}

// set changes what is down.
func (s *shards) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *shards) count(at string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[at]
}

// Renew is of servers that are asked at the same time: one that is down keeps the
// answers of the others.
func (s *shards) Renew(ctx context.Context, grants []driver.Grant) []error {
	errs := s.spy.Renew(ctx, grants)
	s.mu.Lock()
	silent := slices.ContainsFunc(grants, func(g driver.Grant) bool {
		return slices.ContainsFunc(g.Claims, func(c core.Claim) bool { return s.down[partition(c.Key)] })
	})
	s.mu.Unlock()
	if silent {
		<-ctx.Done()
		for i := range errs {
			errs[i] = errDown
		}
	}
	return errs
}

// A lease does not wait for the answers about those in other parts: they may never
// come.
func TestRenewalsOfAPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShards()
		eng := newEngine(t, s, core.WithTTL(3*time.Second))
		var well, lost []*core.Lease
		for i := range 20 {
			l, err := eng.Acquire(t.Context(), fmt.Sprintf("%s:%d", []string{"a", "b"}[i%2], i))
			must(t, err)
			if i%2 == 1 {
				well = append(well, l)
			} else {
				lost = append(lost, l)
			}
		}
		set, err := eng.AcquireAll(t.Context(), exclusives([]string{"b:set", "c:set"}))
		must(t, err)
		s.set(func() { s.down["a"] = true })
		time.Sleep(time.Minute)
		for _, l := range append(well, set) {
			if err := l.Err(); err != nil {
				t.Errorf("%v: %v", l.Claims(), err)
			}
			_ = l.Release(t.Context())
		}
		for _, l := range lost {
			wantOnly(t, l.Release(t.Context()), core.ErrLeaseLost)
		}
	})
}

// wearOut asks for keys until their circuit opens.
func wearOut(t *testing.T, eng *core.Engine, keys ...string) {
	t.Helper()
	for range 2 {
		_, err := eng.AcquireAll(t.Context(), exclusives(keys))
		wantOnly(t, err, core.ErrUnavailable)
		time.Sleep(defaultCircuit)
	}
	_, err := eng.AcquireAll(t.Context(), exclusives(keys))
	wantOnly(t, err, core.ErrUnavailable)
	_, err = eng.AcquireAll(t.Context(), exclusives(keys))
	wantOnly(t, err, core.ErrUnavailable, core.ErrCircuitOpen)
}

func exclusives(keys []string) []core.Claim {
	claims := make([]core.Claim, len(keys))
	for i, key := range keys {
		claims[i] = core.Exclusive(key)
	}
	return claims
}

func passes(t *testing.T, eng *core.Engine, keys ...string) {
	t.Helper()
	l, err := eng.AcquireAll(t.Context(), exclusives(keys))
	if err != nil {
		t.Errorf("%v: %v", keys, err)
		return
	}
	if err := l.Release(t.Context()); err != nil {
		t.Errorf("%v: %v", keys, err)
	}
}

// A set needs all of its parts: any of them refuses it, and what it finds out concerns
// only the one that failed.
func TestCircuitOfASet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShards()
		eng := newEngine(t, s)
		s.down["b"] = true
		wearOut(t, eng, "a:k", "b:k", "c:k")
		for _, one := range []string{"a:k", "c:k"} {
			passes(t, eng, one)
		}
		_, err := attempt(eng, "b:k")
		wantOnly(t, err, core.ErrUnavailable, core.ErrCircuitOpen)
		before := s.count("a")
		_, err = eng.AcquireAll(t.Context(), exclusives([]string{"a:x", "b:x"}))
		wantOnly(t, err, core.ErrUnavailable, core.ErrCircuitOpen)
		if n := s.count("a"); n != before {
			t.Errorf("the part that is well was asked %d times", n-before)
		}
		s.set(func() { s.down["b"] = false })
		time.Sleep(defaultCircuit) // one may try again
		passes(t, eng, "a:k", "b:k", "c:k")
		passes(t, eng, "b:k")
	})
}
