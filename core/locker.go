package core

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/keyturn/keyturn/core/driver"
)

// ErrNotLocked: a [Mutex] was unlocked that is not locked.
var ErrNotLocked = errors.New("keyturn: the mutex is not locked")

// Mutex is a key in the form of a mutex, for programs that come from a library with one. Others
// use [Engine.Do], which gives the work a context that ends when the lock is lost.
//
// A Mutex has one user at a time: everybody who wants the key makes one ([Engine.Mutex]). If it were
// shared, an Unlock after a loss would release what another user has locked since. Therefore a Mutex
// that is locked, or lost and not unlocked yet, refuses to be locked. It is safe for concurrent use.
type Mutex struct {
	eng  *Engine
	key  string
	opts []CallOption
	held atomic.Pointer[Lease]
}

// locking stands for the lease while a Mutex is being locked.
var locking = new(Lease)

// Mutex returns key as a mutex. It asks the store nothing, and what is wrong with key and opts is an
// error of [Mutex.Lock].
func (e *Engine) Mutex(key string, opts ...CallOption) *Mutex {
	return &Mutex{eng: e, key: key, opts: opts}
}

// Lock waits for the key and takes it. The watchdog renews the lock until [Mutex.Unlock]. ctx bounds
// the wait, and the lock outlives it. The context of [Mutex.Lease] does not.
//
// Errors: those of [Engine.Acquire]; ErrWouldDeadlock if m is locked already, or if ctx holds the
// key by another lease; and ErrInvalidOption with [WithShared] or [WithPermits].
func (m *Mutex) Lock(ctx context.Context) error { return m.lock(ctx, m.eng.Acquire) }

// TryLock takes the key if it is free. Its errors are those of Lock and [Engine.TryAcquire].
func (m *Mutex) TryLock(ctx context.Context) error { return m.lock(ctx, m.eng.TryAcquire) }

func (m *Mutex) lock(ctx context.Context, acquire func(context.Context, string, ...CallOption) (*Lease, error)) error {
	if s, err := m.eng.settingsFor(m.opts); err != nil {
		return err
	} else if s.mode != driver.ModeExclusive {
		return &OptionError{Option: "Mutex", Value: s.mode, Want: "an exclusive claim"}
	}
	if !m.held.CompareAndSwap(nil, locking) {
		return fmt.Errorf("%w: the mutex of %q is locked already", ErrWouldDeadlock, m.eng.ShowKey(m.key))
	}
	var locked *Lease // also if a store panics
	defer func() { m.held.Store(locked) }()
	lease, err := acquire(ctx, m.key, m.opts...)
	if err != nil {
		return err
	}
	if lease.nest != nil && !lease.nest.obtained(m.key) { // ctx holds the key: it would not exclude itself
		_ = lease.Release(ctx)
		return fmt.Errorf("%w: %q is held by the caller's context", ErrWouldDeadlock, m.eng.ShowKey(m.key))
	}
	locked = lease
	return nil
}

// Unlock releases the key. Its errors are those of [Lease.Release], for example ErrLeaseLost if the
// lock had ended before; after any of them m is unlocked. [ErrNotLocked]: it was not locked.
func (m *Mutex) Unlock(ctx context.Context) error {
	lease := m.Lease()
	if lease == nil || !m.held.CompareAndSwap(lease, nil) {
		return ErrNotLocked
	}
	return lease.Release(ctx)
}

// Lease returns the lease of a locked Mutex, for its context, its loss and its fencing token; nil if
// m is not locked.
func (m *Mutex) Lease() *Lease {
	if lease := m.held.Load(); lease != locking {
		return lease
	}
	return nil
}
