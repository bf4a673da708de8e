package core_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/locktest"
	"github.com/keyturn/keyturn/store/memstore"
)

func TestPing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kit := locktest.New(t)
		eng := kit.Engine
		wants := func(what string, ctx context.Context, want error, took time.Duration) {
			t.Helper()
			began := time.Now()
			err := eng.Ping(ctx)
			if !errors.Is(err, want) || (err == nil) != (want == nil) || time.Since(began) != took {
				t.Errorf("%s: %v after %v, want %v after %v", what, err, time.Since(began), want, took)
			}
		}
		wants("the store answers", bg, nil, 0)
		lease := mustAcquire(t, eng, "keyturn.ping") // which is free again
		wants("while another one has the key", bg, nil, 0)
		mustRelease(t, lease)

		kit.Store.Refuse()
		wants("the store is down", bg, core.ErrUnavailable, 0)
		kit.Store.Heal()
		kit.Store.Hang()
		wants("the store is silent", bg, core.ErrUnavailable, 2*time.Second)
		soon, cancel := context.WithTimeout(bg, time.Second)
		defer cancel()
		wants("the store is silent for a caller in a hurry", soon, core.ErrUnavailable, time.Second)
		left, leave := context.WithCancel(bg)
		time.AfterFunc(time.Second, leave)
		wants("the caller left", left, context.Canceled, time.Second)
		kit.Store.Heal()
		wants("the store is back", bg, nil, 0)
		shut(t, eng)
		wants("after Close", bg, core.ErrClosed, 0)
	})
}

// ailing is a store that says when it is impaired.
type ailing struct {
	*memstore.Store
	tell func(error)
}

func (a *ailing) Describe() driver.Description {
	d := a.Store.Describe()
	d.OnImpaired = func(f func(error)) { a.tell = f }
	return d
}

// wantVersion tells the store of a version.
func wantVersion(t *testing.T, eng *core.Engine, version, want uint64, opts ...core.CallOption) {
	t.Helper()
	newest, err := eng.AdvanceVersion(bg, "k", version, opts...)
	check(t, err == nil && newest == want, "AdvanceVersion(%d) = %d, %v; want %d", version, newest, err, want)
}

// The contract proves the rest at every store.
func TestRaiseKeepsTheGreatestForItsRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		eng, other := newEngine(t, mem), newEngine(t, mem.Peer(), core.WithRetention(time.Minute))
		wantVersion(t, eng, 5, 5)
		wantVersion(t, other, 3, 5, core.WithRetention(time.Hour))
		time.Sleep(59 * time.Minute)
		wantVersion(t, other, 3, 5)
		time.Sleep(time.Minute)
		wantVersion(t, eng, 0, 0)
	})
}

func TestRaiseRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone, cancel := context.WithCancel(bg)
		cancel()
		store := locktest.NewStore(memstore.New())
		eng := newEngine(t, store, core.WithLogger(discard), core.WithCircuit(core.Forever))
		try := func(ctx context.Context, key string, took time.Duration, opts []core.CallOption, want ...error) {
			t.Helper()
			began := time.Now()
			wantOnly(t, errOf(eng.AdvanceVersion(ctx, key, 1, opts...)), want...)
			wantTook(t, began, took)
		}
		try(bg, "a{b", 0, nil, core.ErrInvalidKey)
		try(bg, "k", 0, []core.CallOption{core.WithRetention(0)}, core.ErrInvalidOption)
		try(gone, "k", 0, nil, context.Canceled)
		store.Refuse()
		try(bg, "k", 0, nil, core.ErrUnavailable)
		store.Heal()
		store.Hang()
		try(bg, "k", 5*time.Second, nil, core.ErrUnavailable)
		try(bg, "k", time.Second, []core.CallOption{core.WithMaxWait(time.Second)}, core.ErrUnavailable)
		hangsUp, cancel := context.WithCancel(bg)
		time.AfterFunc(time.Second, cancel)
		try(hangsUp, "k", time.Second, nil, context.Canceled)
		time.AfterFunc(time.Second, func() { go shut(t, eng) })
		try(bg, "k", time.Second, nil, core.ErrClosed)
		try(bg, "k", 0, nil, core.ErrClosed)
		wantOnly(t, errOf(newEngine(t, plain{newSpy()}).AdvanceVersion(bg, "k", 1)), errors.ErrUnsupported)
	})
}

// An outage is not waited out by each of those who ask, and one of them finds its
// end.
func TestRaiseHeedsTheCircuit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := locktest.NewStore(memstore.New())
		eng := newEngine(t, store, core.WithLogger(discard))
		store.Hang()
		wantOnly(t, errOf(eng.AdvanceVersion(bg, "k", 1)), core.ErrUnavailable)
		began := time.Now()
		for range 3 {
			wantOnly(t, errOf(eng.AdvanceVersion(bg, "k", 1)), core.ErrUnavailable, core.ErrCircuitOpen)
		}
		wantEqual(t, "refusals took", time.Since(began), 0)
		store.Heal()
		time.Sleep(3 * time.Second)
		wantVersion(t, eng, 1, 1)
		isFree(t, eng, "k") // the circuit is closed
	})
}
