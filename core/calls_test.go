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
		pings := func(ctx context.Context, want error, took time.Duration) {
			t.Helper()
			began := time.Now()
			wantIs(t, "Ping", kit.Engine.Ping(ctx), want)
			wantTook(t, began, took)
		}
		pings(bg, nil, 0)
		lease := mustAcquire(t, kit.Engine, "keyturn.ping") // which is free again, and need not be
		pings(bg, nil, 0)
		mustRelease(t, lease)
		kit.Store.Refuse()
		pings(bg, core.ErrUnavailable, 0)
		kit.Store.Heal()
		kit.Store.Hang()
		pings(bg, core.ErrUnavailable, 2*time.Second)
		pings(callerFor(t, time.Second, 0), core.ErrUnavailable, time.Second)
		pings(callerFor(t, 0, time.Second), context.Canceled, time.Second)
		kit.Store.Heal()
		pings(bg, nil, 0)
		shut(t, kit.Engine)
		pings(bg, core.ErrClosed, 0)
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

func TestAdvanceVersionRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := locktest.NewStore(memstore.New())
		eng := newEngine(t, store, core.WithLogger(discard))
		try := func(eng *core.Engine, ctx context.Context, key string, took time.Duration, opts []core.CallOption, want ...error) {
			t.Helper()
			began := time.Now()
			wantOnly(t, errOf(eng.AdvanceVersion(ctx, key, 1, opts...)), want...)
			wantTook(t, began, took)
		}
		try(eng, bg, "a{b", 0, nil, core.ErrInvalidKey)
		try(eng, bg, "k", 0, []core.CallOption{core.WithRetention(0)}, core.ErrInvalidOption)
		try(eng, callerFor(t, 0, -1), "k", 0, nil, context.Canceled)
		store.Refuse()
		try(eng, bg, "k", 0, nil, core.ErrUnavailable)
		store.Heal()
		store.Hang()
		try(eng, callerFor(t, 0, time.Second), "k", time.Second, nil, context.Canceled)
		// One waits for the store, the others do not.
		try(eng, bg, "k", 5*time.Second, nil, core.ErrUnavailable)
		try(eng, bg, "k", 0, nil, core.ErrUnavailable, core.ErrCircuitOpen)
		store.Heal()
		time.Sleep(3 * time.Second)
		try(eng, bg, "k", 0, nil)
		isFree(t, eng, "k") // the circuit is closed
		store.Hang()
		try(eng, bg, "k", time.Second, []core.CallOption{core.WithMaxWait(time.Second)}, core.ErrUnavailable)
		time.AfterFunc(time.Second, func() { go shut(t, eng) })
		try(eng, bg, "k", time.Second, nil, core.ErrClosed)
		try(eng, bg, "k", 0, nil, core.ErrClosed)
		try(newEngine(t, plain{newSpy()}), bg, "k", 0, nil, errors.ErrUnsupported)
	})
}

type order struct {
	ID    int
	Lines []string
}

func TestDoWithAResult(t *testing.T) {
	eng := newEngine(t, memstore.New())
	do := func(key string, fn func(context.Context) (int, error), wantN int, want error) {
		t.Helper()
		n, err := core.Do(bg, eng, key, fn)
		wantEqual(t, "result", n, wantN)
		wantIs(t, "error", err, want)
	}
	do("k", func(context.Context) (int, error) { return 7, nil }, 7, nil)
	do("k", func(context.Context) (int, error) { return 8, errHandler }, 8, errHandler)
	do("", func(context.Context) (int, error) { return 9, nil }, 0, core.ErrInvalidKey)
	do("k", nil, 0, core.ErrInvalidOption)
}

func TestOnceWithAResult(t *testing.T) {
	eng := newEngine(t, memstore.New())
	for i := range 2 { // the first one runs, the second one reads the record
		got, err := core.Once(bg, eng, "order", func(context.Context) (*order, error) { return &order{i, []string{"a"}}, nil })
		check(t, err == nil && got != nil && got.ID == 0 && len(got.Lines) == 1, "call %d: %+v, %v", i, got, err)
		raw, err := core.Once(bg, eng, "raw", func(context.Context) ([]byte, error) { return []byte{'<', byte('0' + i)}, nil })
		check(t, err == nil && string(raw) == "<0", "call %d: bytes are recorded as they are: %q, %v", i, raw, err)
	}
	wantOnly(t, errOf(core.Once(bg, eng, "order", func(context.Context) (int, error) { return 1, nil })), core.ErrEncoding)
	v, err := core.Once(bg, eng, "order", func(context.Context) ([]byte, error) { return nil, nil })
	check(t, err == nil && string(v) == `{"ID":0,"Lines":["a"]}`, "a record is JSON: %q, %v", v, err)
	wantOnly(t, errOf(core.Once[int](bg, eng, "nil", nil)), core.ErrInvalidOption)
}

func TestOnceOfWhatIsNotRecorded(t *testing.T) {
	eng := newEngine(t, memstore.New())
	for range 2 { // it runs both times
		c, err := core.Once(bg, eng, "chan", func(context.Context) (chan int, error) { return make(chan int), nil })
		check(t, c != nil && errors.Is(err, core.ErrEncoding), "a result that is no JSON: %v, %v", c, err)
		wantEqual(t, "error", errOf(core.Once(bg, eng, "fails", func(context.Context) (int, error) { return 0, errHandler })), errHandler)
	}
	for i, want := range []error{nil, core.ErrResultNotKept} {
		c, err := core.Once(bg, eng, "skip", func(context.Context) (chan int, error) { return make(chan int), core.ErrSkipResult })
		wantIs(t, "a result that is not kept, and need not be JSON", err, want)
		wantEqual(t, "there is a result", c != nil, i == 0)
	}
}

func TestMutexRefuses(t *testing.T) {
	eng := newEngine(t, memstore.New())
	m, other := eng.Mutex("k"), eng.Mutex("k")
	wantIs(t, "Unlock of a new mutex", m.Unlock(bg), core.ErrNotLocked)
	check(t, m.Lease() == nil, "a mutex that is not locked has a lease")
	must(t, m.Lock(bg))
	check(t, m.Lease().Token() > 0, "a locked mutex has the lease %v", m.Lease())
	wantIs(t, "Lock again", m.Lock(bg), core.ErrWouldDeadlock)
	wantIs(t, "TryLock of another one", other.TryLock(bg), core.ErrHeld)
	wantIs(t, "Lock under its context", other.Lock(m.Lease().Context()), core.ErrWouldDeadlock)
	wantIs(t, "Unlock of the one that was refused", other.Unlock(bg), core.ErrNotLocked)
	must(t, m.Unlock(bg))
	wantIs(t, "Unlock again", m.Unlock(bg), core.ErrNotLocked)
	must(t, other.TryLock(bg))
	must(t, other.Unlock(bg))
	wantIs(t, "shared", eng.Mutex("k", core.WithShared()).Lock(bg), core.ErrInvalidOption)
	wantIs(t, "no key", eng.Mutex("").Lock(bg), core.ErrInvalidKey)
	must(t, m.Lock(bg)) // after its refusals
	must(t, m.Unlock(bg))

	group := mustAcquire(t, eng, "g/a", core.WithHierarchy())
	both := acquireIn(t, group.Context(), eng, "h/a")
	for key, want := range map[string]error{"g/a": core.ErrWouldDeadlock, "h/a": core.ErrWouldDeadlock, "g/b": nil} {
		m := eng.Mutex(key, core.WithHierarchy())
		wantIs(t, key+" under g/a and h/a", m.Lock(both.Context()), want)
		wantIs(t, key+" elsewhere", errOf(eng.TryAcquire(bg, key)), core.ErrHeld)
		check(t, (m.Unlock(bg) == nil) == (want == nil), "Unlock of %s, Lock: %v", key, want)
	}
	mustRelease(t, both)
	mustRelease(t, group)
}

// TestMutexAfterALoss: an Unlock after a loss must not release what somebody has locked since.
func TestMutexAfterALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kit := locktest.New(t)
		m, next := kit.Engine.Mutex("k", core.WithTTL(time.Second)), kit.Engine.Mutex("k")
		must(t, m.Lock(bg))
		kit.Store.Lose("k")
		<-m.Lease().Done()
		must(t, next.Lock(bg))
		wantOnly(t, m.TryLock(bg), core.ErrWouldDeadlock)
		wantOnly(t, m.Unlock(bg), core.ErrLeaseLost)
		wantOnly(t, m.TryLock(bg), core.ErrHeld)
		wantNil(t, next.Unlock(bg))
	})
}
