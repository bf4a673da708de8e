package tracing_test

import (
	"context"
	"errors"
	"sync"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/observe"
	"github.com/keyturn/keyturn/internal/checktest"
)

// failures are the plays of refusals, outages and losses.
var failures = map[string]func(*scene){
	"gives_up": func(s *scene) {
		defer s.occupy(key)()
		s.want(checktest.ErrorOf(s.eng.TryAcquire(s.ctx, key)), core.ErrHeld)
		s.want(s.eng.Do(s.ctx, key, s.work(0), core.WithMaxWait(2*time.Second)), core.ErrWaitTimeout)
		ctx, cancel := context.WithTimeout(s.ctx, time.Second)
		s.want(s.eng.Do(ctx, key, s.work(0)), context.DeadlineExceeded)
		cancel()
		ctx, cancel = context.WithCancel(s.ctx)
		time.AfterFunc(time.Second, cancel)
		s.want(s.eng.Do(ctx, key, s.work(0)), context.Canceled)
		s.want(checktest.ErrorOf(s.eng.Once(ctx, key, s.result(0))), context.Canceled)
	},
	"too_many_waiters": func(s *scene) {
		s.eng = newEngine(s.t, s.store, core.WithHooks(s.obs), core.WithMaxWaiters(1))
		release := s.occupy(key)
		var all sync.WaitGroup
		all.Go(func() { s.want(s.eng.Do(s.ctx, key, s.work(0)), nil) })
		synctest.Wait()
		s.want(s.eng.Do(s.ctx, key, s.work(0)), core.ErrTooManyWaiters)
		s.want(checktest.ErrorOf(s.eng.Once(s.ctx, key, s.result(0))), core.ErrTooManyWaiters)
		release()
		all.Wait()
	},
	"not_rehearsed": func(s *scene) { // what an engine says of a shadow's call beyond its bound
		a := observe.Acquisition{Claims: []driver.Claim{driver.Exclusive(key)}, Wait: true, Store: "memory", Shadow: true}
		s.obs.AcquireEnd(s.obs.AcquireStart(s.ctx, a), a, nil, observe.ErrNotRehearsed)
	},
	"unavailable": func(s *scene) {
		s.store.refusal = errDown
		s.want(s.eng.Do(s.ctx, key, s.work(0)), core.ErrUnavailable)
		s.want(checktest.ErrorOf(s.eng.Once(s.ctx, key, s.result(0))), core.ErrUnavailable)
	},
	"unlocked": func(s *scene) {
		s.store.refusal = errDown
		s.want(s.eng.Do(s.ctx, key, s.work(time.Second), core.WithRunUnlocked(), core.WithRule(rule)), nil)
		s.want(checktest.ErrorOf(s.eng.Once(s.ctx, key, s.result(time.Second), core.WithRunUnlocked())), nil)
		s.want(checktest.ErrorOf(s.eng.Once(s.ctx, key, func(context.Context) ([]byte, error) { return nil, core.ErrHeld }, core.WithRunUnlocked())), core.ErrHeld)
		s.want(s.eng.DoAll(s.ctx, set, s.work(0), core.WithRunUnlocked()), nil)
	},
	"broken": func(s *scene) {
		s.store.refusal = errors.New("WRONGTYPE " + key)
		s.want(s.eng.Do(s.ctx, key, s.work(0)), s.store.refusal)
	},
	"closed": func(s *scene) {
		defer s.occupy(key)()
		var all sync.WaitGroup
		all.Go(func() { s.want(s.eng.Do(s.ctx, key, s.work(0)), core.ErrClosed) })
		synctest.Wait()
		s.want(s.eng.Close(context.Background()), nil)
		all.Wait()
		s.want(checktest.ErrorOf(s.eng.Once(s.ctx, key, s.result(0))), core.ErrClosed)
	},
	"cut_off": func(s *scene) {
		var all sync.WaitGroup
		all.Go(func() { s.want(s.eng.Do(s.ctx, key, s.work(5*time.Second)), core.ErrLeaseLost) })
		synctest.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		s.want(s.eng.Close(ctx), context.DeadlineExceeded)
		all.Wait()
		s.eng = newEngine(s.t, s.store) // closed once more, without a complaint
	},
	// The grant comes when it is of no use any more.
	"too_late": func(s *scene) {
		s.store.delay = 3 * time.Second
		s.want(s.eng.Do(s.ctx, key, s.work(0), core.WithTTL(2*time.Second)), core.ErrUnavailable)
		time.AfterFunc(time.Second, func() { s.want(s.eng.Close(context.Background()), nil) })
		s.want(s.eng.Do(s.ctx, key, s.work(0)), core.ErrClosed)
	},
	"taken": func(s *scene) {
		lease, err := s.eng.Acquire(s.ctx, key, core.WithTTL(6*time.Second), core.WithRule(rule))
		s.want(err, nil)
		s.steal(lease)
		<-lease.Context().Done()
		s.want(lease.Release(s.ctx), core.ErrLeaseLost)
	},
	"expired": func(s *scene) {
		s.store.renewErr = errDown
		lease, err := s.eng.Acquire(s.ctx, key, core.WithTTL(6*time.Second))
		s.want(err, nil)
		<-lease.Context().Done()
		s.want(lease.Release(s.ctx), core.ErrLeaseLost)
	},
	"max_hold": func(s *scene) {
		s.want(s.eng.Do(s.ctx, key, s.work(4*time.Second), core.WithMaxHold(3*time.Second)), core.ErrLeaseLost)
	},
	"release_unanswered": func(s *scene) {
		lease, err := s.eng.Acquire(s.ctx, key)
		s.want(err, nil)
		s.store.mute.Store(true)
		s.want(lease.Release(s.ctx), core.ErrOutcomeUnknown)
		s.store.mute.Store(false)
		s.want(lease.Release(s.ctx), nil)
		for _, state := range []observe.DebtState{observe.DebtOwed, observe.DebtExpired, observe.DebtOwed, observe.DebtClosed, observe.DebtDropped} {
			s.obs.Owed(context.Background(), observe.Debt{Rule: "a", Store: "memory", State: state})
		}
	},
	"panic": func(s *scene) {
		s.panics(func() { _ = s.eng.Do(s.ctx, key, func(ctx context.Context) error { panic("the handler") }) })
		s.panics(func() {
			_, _ = s.eng.Once(s.ctx, key, func(ctx context.Context) ([]byte, error) { panic("the handler") })
		})
		s.store.panics = true
		s.panics(func() { _, _ = s.eng.Once(s.ctx, key, s.result(0)) })
	},
	"renewed_late": func(s *scene) { // what an engine says that had no processor time
		lease, err := s.eng.Acquire(s.ctx, key)
		s.want(err, nil)
		time.Sleep(6 * time.Second)
		s.obs.Renewed(seen{lease}, 3*time.Second, nil)
		s.want(lease.Release(s.ctx), nil)
	},
}
