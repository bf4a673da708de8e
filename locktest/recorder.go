package locktest

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/observe"
)

// Recorder remembers what an engine's leases held, and what ran without a lock. The zero value
// is ready. A Kit has one. For any other engine, pass its Hooks to core.WithHooks. It is safe
// for concurrent use.
type Recorder struct {
	mu       sync.Mutex
	holds    []Hold
	open     map[observe.Lease]int // index in holds
	unlocked []observe.Acquisition
}

// Hold is one lease, from its grant to its end.
type Hold struct {
	Claims []driver.Claim
	Rule   string // from core.WithRule
	Token  uint64
	Begin  time.Time
	End    time.Time // zero: still held
	Err    error     // how it ended; nil: by release, or it is still held
}

// Hooks returns the hooks that make r record; pass them to core.WithHooks.
func (r *Recorder) Hooks() observe.Hooks {
	return observe.Hooks{HoldStart: r.holdStart, HoldEnd: r.holdEnd, Unlocked: r.ranUnlocked}
}

func (r *Recorder) holdStart(ctx context.Context, l observe.Lease) context.Context {
	hold := Hold{Claims: l.Claims(), Rule: l.Rule(), Token: l.Token(), Begin: time.Now()} // takes mutexes of the engine
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open == nil {
		r.open = make(map[observe.Lease]int)
	}
	r.open[l] = len(r.holds)
	r.holds = append(r.holds, hold)
	return ctx
}

func (r *Recorder) holdEnd(_ context.Context, l observe.Lease, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i, ok := r.open[l]; ok {
		r.holds[i].End, r.holds[i].Err = time.Now(), err
		delete(r.open, l)
	}
}

func (r *Recorder) ranUnlocked(_ context.Context, a observe.Acquisition, _ error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unlocked = append(r.unlocked, a)
}

// Holds returns all leases so far, in the order of their grants.
func (r *Recorder) Holds() []Hold {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.holds)
}

// Keys returns the keys of all leases so far, in the order of their grants. A key that was held
// several times comes several times.
func (r *Recorder) Keys() []string { return r.keys(func(Hold) bool { return true }) }

// keys returns the keys of the leases that are meant.
func (r *Recorder) keys(meant func(Hold) bool) (keys []string) {
	for _, h := range r.Holds() {
		if !meant(h) {
			continue
		}
		for _, c := range h.Claims {
			keys = append(keys, c.Key)
		}
	}
	return keys
}

// AssertLocked fails the test unless each of keys was held at some time.
func (r *Recorder) AssertLocked(t testing.TB, keys ...string) {
	t.Helper()
	held := r.Keys()
	for _, key := range keys {
		if !slices.Contains(held, key) {
			t.Errorf("locktest: %q was never locked; these were: %q", key, held)
		}
	}
}

// AssertReleased fails the test if a lease is held now, or was lost.
func (r *Recorder) AssertReleased(t testing.TB) {
	t.Helper()
	for _, h := range r.Holds() {
		switch {
		case h.End.IsZero():
			t.Errorf("locktest: %q is still held", h.Claims[0].Key)
		case h.Err != nil:
			t.Errorf("locktest: %q was not released: %v", h.Claims[0].Key, h.Err)
		}
	}
}

// AssertNeverUnlocked fails the test if a rule ran something without its lock,
// as core.WithRunUnlocked allows.
func (r *Recorder) AssertNeverUnlocked(t testing.TB) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.unlocked {
		t.Errorf("locktest: ran without the lock on %q (rule %q)", a.Claims[0].Key, a.Rule)
	}
}
