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
	names map[string]string // by what stands in front; absent: that itself
	down  map[string]bool
	vague bool // errors do not say which key they are about
	asked map[string]int
}

func newShards() *shards {
	s := &shards{spy: newSpy(), names: make(map[string]string), down: make(map[string]bool), asked: make(map[string]int)}
	s.onAcquire = func(_ context.Context, req driver.Request) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, c := range req.Claims {
			at := s.locate(c.Key)
			s.asked[at]++
			if s.down[at] {
				out := &core.UnavailableError{Op: "acquire", Key: c.Key, Err: errDown}
				if s.vague {
					out.Key = ""
				}
				return out
			}
		}
		return nil
	}
	return s
}

func (s *shards) locate(key string) string {
	at, _, _ := strings.Cut(key, ":")
	if moved := s.names[at]; moved != "" {
		return moved
	}
	return at
}

func (s *shards) Describe() driver.Description {
	d := s.spy.Describe()
	d.Partition = s.partition
	return d
}

func (s *shards) partition(key string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.locate(key)
}

// set changes what is where, and what is down.
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
		return slices.ContainsFunc(g.Claims, func(c core.Claim) bool { return s.down[s.locate(c.Key)] })
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
			if err != nil {
				t.Fatal(err)
			}
			if i%2 == 1 {
				well = append(well, l)
			} else {
				lost = append(lost, l)
			}
		}
		set, err := eng.AcquireAll(t.Context(), exclusives([]string{"b:set", "c:set"}))
		if err != nil {
			t.Fatal(err)
		}
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

// A part that is out is none of the others' business: neither do their answers keep
// its circuit from opening, nor does its silence open theirs.
func TestCircuitOfAPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShards()
		eng := newEngine(t, s)
		s.down["a"] = true
		for range 20 { // together as long as it takes
			_, err := attempt(eng, "a:k")
			wantOnly(t, err, core.ErrUnavailable)
			passes(t, eng, "b:k")
			time.Sleep(defaultCircuit / 20)
		}
		_, _ = attempt(eng, "a:k") // the last straw
		_, err := attempt(eng, "a:other")
		wantOnly(t, err, core.ErrUnavailable, core.ErrCircuitOpen)
		passes(t, eng, "b:k")
		passes(t, eng, "c:k")

		// A key that another server has now is that server's.
		s.set(func() { s.names["a"] = "replica" })
		passes(t, eng, "a:k")
	})
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

// A set's failure that does not say where it happened shuts nobody out.
func TestCircuitOfASetThatFailsSomewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShards()
		s.vague = true
		eng := newEngine(t, s)
		s.down["b"] = true
		for range 5 {
			_, err := eng.AcquireAll(t.Context(), exclusives([]string{"a:k", "b:k"}))
			wantOnly(t, err, core.ErrUnavailable)
			time.Sleep(defaultCircuit)
		}
		passes(t, eng, "a:k")
	})
}
