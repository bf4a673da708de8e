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
		newest, err := eng.AdvanceVersion(bg, "k", 1)
		check(t, newest == 1 && err == nil, "AdvanceVersion = %d, %v", newest, err)
		isFree(t, eng, "k") // the circuit is closed
	})
}

type order struct {
	ID    int
	Lines []string
}

func TestDoWithAResult(t *testing.T) {
	eng := newEngine(t, memstore.New())
	n, err := core.Do(bg, eng, "k", func(context.Context) (int, error) { return 7, nil })
	check(t, n == 7 && err == nil, "%d, %v", n, err)
	n, err = core.Do(bg, eng, "k", func(context.Context) (int, error) { return 8, errHandler })
	check(t, n == 8 && err == errHandler, "fn's own error: %d, %v", n, err)
	if n, err := core.Do(bg, eng, "", func(context.Context) (int, error) { return 9, nil }); n != 0 || !errors.Is(err, core.ErrInvalidKey) {
		t.Errorf("fn did not run: %d, %v", n, err)
	}
	wantOnly(t, errOf(core.Do[int](bg, eng, "k", nil)), core.ErrInvalidOption)
}

func TestOnceWithAResult(t *testing.T) {
	eng := newEngine(t, memstore.New())
	for i := range 2 { // the first one runs, the second one reads the record
		got, err := core.Once(bg, eng, "order", func(context.Context) (*order, error) { return &order{i, []string{"a"}}, nil })
		if err != nil || got == nil || got.ID != 0 || len(got.Lines) != 1 {
			t.Errorf("call %d: %+v, %v", i, got, err)
		}
		raw, err := core.Once(bg, eng, "raw", func(context.Context) ([]byte, error) { return []byte{'<', byte('0' + i)}, nil })
		check(t, err == nil && string(raw) == "<0", "call %d: bytes are recorded as they are: %q, %v", i, raw, err)
	}
	wantOnly(t, errOf(core.Once(bg, eng, "order", func(context.Context) (int, error) { return 1, nil })), core.ErrEncoding)
	if v, err := core.Once(bg, eng, "order", func(context.Context) ([]byte, error) { return nil, nil }); err != nil || string(v) != `{"ID":0,"Lines":["a"]}` {
		t.Errorf("a record is JSON: %q, %v", v, err)
	}
	wantOnly(t, errOf(core.Once[int](bg, eng, "nil", nil)), core.ErrInvalidOption)
}

func TestOnceOfWhatIsNotRecorded(t *testing.T) {
	eng := newEngine(t, memstore.New())
	runs := 0
	for range 2 {
		c, err := core.Once(bg, eng, "chan", func(context.Context) (chan int, error) {
			runs++
			return make(chan int), nil
		})
		check(t, c != nil && errors.Is(err, core.ErrEncoding), "a result that is no JSON: %v, %v", c, err)
		if _, err := core.Once(bg, eng, "fails", func(context.Context) (int, error) { runs++; return 0, errHandler }); err != errHandler {
			t.Errorf("fn's own error: %v", err)
		}
	}
	wantEqual(t, "runs", runs, 4)
	if n, err := core.Once(bg, eng, "skip", func(context.Context) (int, error) { return 3, core.ErrSkipResult }); n != 3 || err != nil {
		t.Errorf("a result that is not kept: %d, %v", n, err)
	}
	if n, err := core.Once(bg, eng, "skip", func(context.Context) (int, error) { return 4, nil }); n != 0 || !errors.Is(err, core.ErrResultNotKept) {
		t.Errorf("its repeat: %d, %v", n, err)
	}
}

func TestMutexRefuses(t *testing.T) {
	eng := newEngine(t, memstore.New())
	m, other := eng.Mutex("k"), eng.Mutex("k")
	wants := func(what string, err, want error) {
		t.Helper()
		check(t, errors.Is(err, want), "%s: %v, want %v", what, err, want)
	}
	wants("Unlock of a new mutex", m.Unlock(bg), core.ErrNotLocked)
	check(t, m.Lease() == nil, "a mutex that is not locked has a lease")
	must(t, m.Lock(bg))
	if l := m.Lease(); l == nil || l.Token() == 0 {
		t.Errorf("a locked mutex has the lease %v", l)
	}
	wants("Lock again", m.Lock(bg), core.ErrWouldDeadlock)
	wants("TryLock of another one", other.TryLock(bg), core.ErrHeld)
	wants("Lock under its context", other.Lock(m.Lease().Context()), core.ErrWouldDeadlock)
	wants("Unlock of the one that was refused", other.Unlock(bg), core.ErrNotLocked)
	wants("Unlock", m.Unlock(bg), nil)
	wants("Unlock again", m.Unlock(bg), core.ErrNotLocked)
	wants("TryLock", other.TryLock(bg), nil)
	wants("Unlock", other.Unlock(bg), nil)
	wants("shared", eng.Mutex("k", core.WithShared()).Lock(bg), core.ErrInvalidOption)
	wants("no key", eng.Mutex("").Lock(bg), core.ErrInvalidKey)
	wants("locked after a refusal", m.Lock(bg), nil)
	wants("Unlock", m.Unlock(bg), nil)
}

// TestMutexAfterALoss: an Unlock after a loss must not release what somebody has locked since.
func TestMutexAfterALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kit := locktest.New(t)
		m := kit.Engine.Mutex("k", core.WithTTL(time.Second))
		must(t, m.Lock(bg))
		if _, err := kit.Engine.ForceRelease(bg, "k", "a test"); err != nil {
			t.Fatal(err)
		}
		<-m.Lease().Done()
		next := kit.Engine.Mutex("k")
		must(t, next.Lock(bg))
		wantOnly(t, m.TryLock(bg), core.ErrWouldDeadlock)
		wantOnly(t, m.Unlock(bg), core.ErrLeaseLost)
		wantOnly(t, m.TryLock(bg), core.ErrHeld)
		wantNil(t, next.Unlock(bg))
	})
}
