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
	down map[string]bool
}

func newShards() *shards {
	s := &shards{spy: newSpy(), down: make(map[string]bool)}
	s.onAcquire = func(_ context.Context, req driver.Request) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, c := range req.Claims {
			if s.down[partition(c.Key)] {
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
		set, err := eng.AcquireAll(t.Context(), exclusive("b:set", "c:set"))
		must(t, err)
		s.change(func() { s.down["a"] = true })
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

// A set needs all of its parts: any of them refuses it, without a request, and what it finds out concerns
// only the one that failed.
func TestCircuitOfASet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShards()
		eng := newEngine(t, s)
		ask := func(keys ...string) error { return tryAll(eng, exclusive(keys...)...) }
		s.down["b"] = true
		for range 3 {
			wantOnly(t, ask("a:k", "b:k", "c:k"), core.ErrUnavailable)
			time.Sleep(defaultCircuit)
		}
		_ = ask("a:k", "b:k", "c:k") // one may try again
		for _, one := range []string{"a:k", "c:k"} {
			wantNil(t, ask(one))
		}
		before := s.requests()
		wantOnly(t, ask("b:k"), core.ErrUnavailable, core.ErrCircuitOpen)
		wantOnly(t, ask("a:x", "b:x"), core.ErrUnavailable, core.ErrCircuitOpen)
		if n := s.requests(); n != before {
			t.Errorf("the store was asked %d times", n-before)
		}
		s.change(func() { s.down["b"] = false })
		time.Sleep(defaultCircuit)
		wantNil(t, ask("a:k", "b:k", "c:k"))
		wantNil(t, ask("b:k"))
	})
}
