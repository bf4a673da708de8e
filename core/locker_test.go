package core_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/locktest"
	"github.com/keyturn/keyturn/store/memstore"
)

func TestMutexRefuses(t *testing.T) {
	eng := newEngine(t, memstore.New())
	ctx := bg
	m, other := eng.Mutex("k"), eng.Mutex("k")
	wants := func(what string, err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	wants("Unlock of a new mutex", m.Unlock(ctx), core.ErrNotLocked)
	if m.Lease() != nil {
		t.Error("a mutex that is not locked has a lease")
	}
	must(t, m.Lock(ctx))
	if l := m.Lease(); l == nil || l.Token() == 0 {
		t.Errorf("a locked mutex has the lease %v", l)
	}
	wants("Lock again", m.Lock(ctx), core.ErrWouldDeadlock)
	wants("TryLock of another one", other.TryLock(ctx), core.ErrHeld)
	wants("Lock under its context", other.Lock(m.Lease().Context()), core.ErrWouldDeadlock)
	wants("Unlock of the one that was refused", other.Unlock(ctx), core.ErrNotLocked)
	wants("Unlock", m.Unlock(ctx), nil)
	wants("Unlock again", m.Unlock(ctx), core.ErrNotLocked)
	wants("TryLock", other.TryLock(ctx), nil)
	wants("Unlock", other.Unlock(ctx), nil)
	wants("shared", eng.Mutex("k", core.WithShared()).Lock(ctx), core.ErrInvalidOption)
	wants("no key", eng.Mutex("").Lock(ctx), core.ErrInvalidKey)
	wants("locked after a refusal", m.Lock(ctx), nil)
	wants("Unlock", m.Unlock(ctx), nil)
}

// TestMutexAfterALoss: an Unlock after a loss must not release what somebody has locked since.
func TestMutexAfterALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kit := locktest.New(t)
		ctx := bg
		m := kit.Engine.Mutex("k", core.WithTTL(time.Second))
		must(t, m.Lock(ctx))
		if _, err := kit.Engine.ForceRelease(ctx, "k", "a test"); err != nil {
			t.Fatal(err)
		}
		<-m.Lease().Done()
		next := kit.Engine.Mutex("k")
		must(t, next.Lock(ctx))
		wantOnly(t, m.TryLock(ctx), core.ErrWouldDeadlock)
		wantOnly(t, m.Unlock(ctx), core.ErrLeaseLost)
		wantOnly(t, m.TryLock(ctx), core.ErrHeld)
		wantNil(t, next.Unlock(ctx))
	})
}
