package tracing_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/author"
	"github.com/keyturn/keyturn/core/coverage"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/observe"
	"github.com/keyturn/keyturn/internal/checktest"
)

var set = []core.Claim{core.Shared("group:7:member:1"), core.Exclusive("group:7:member:2"), core.Permit("group:7:member:3", 5)}

// plays are short scenarios with locks. Their spans are in testdata, in a file of the play's name.
var plays = func() map[string]func(*scene) {
	all := maps.Clone(successes)
	maps.Copy(all, failures)
	return all
}()

// successes are the plays in which everybody gets what they want.
var successes = map[string]func(*scene){
	"do": func(s *scene) { s.want(s.eng.Do(s.ctx, key, s.work(3*time.Second), core.WithRule(rule)), nil) },
	// The way from a slow request to the one that held the key, also for those who
	// wait behind others of their own process.
	"blocked": func(s *scene) {
		release := s.occupyTraced(key)
		var all sync.WaitGroup
		for i := range 3 {
			ctx, span := s.rec.Start(s.ctx, fmt.Sprint("request ", i+1))
			all.Go(func() {
				defer span.End()
				s.want(s.eng.Do(ctx, key, s.work(time.Second), core.WithRule(rule)), nil)
			})
			synctest.Wait()
		}
		s.want(checktest.ErrorOf(s.eng.TryAcquire(s.ctx, key)), core.ErrHeld)
		time.Sleep(2 * time.Second)
		release()
		all.Wait()
	},
	// The next request of this process has the lease that was kept.
	"lingered": func(s *scene) {
		for range 2 {
			s.want(s.eng.Do(s.ctx, key, s.work(time.Second), core.WithRule(rule), core.WithLinger(time.Minute)), nil)
			time.Sleep(time.Second)
		}
	},
	// A caller that waits for a lease that is handed on has links to all its holders. Callers
	// in other processes only know the first of them.
	"handed_on": func(s *scene) {
		other := newEngine(s.t, s.store.Peer(), core.WithHooks(s.obs))
		var all sync.WaitGroup
		join := func(name string, eng *core.Engine, hold time.Duration, opts ...core.CallOption) {
			ctx, span := s.rec.Start(s.ctx, name)
			all.Go(func() {
				defer span.End()
				err := eng.Do(ctx, key, s.work(hold), opts...)
				s.want(err, nil)
			})
			synctest.Wait()
		}
		refused := func(name string, eng *core.Engine) {
			ctx, span := s.rec.Start(s.ctx, name)
			defer span.End()
			s.want(checktest.ErrorOf(eng.TryAcquire(ctx, key)), core.ErrHeld)
		}
		join("1", s.eng, 10*time.Millisecond)
		join("2, in line behind 1", s.eng, 10*time.Millisecond)
		join("3, in line when 1 has it, gets it from 2", s.eng, time.Second)
		time.Sleep(15 * time.Millisecond)
		join("4, in line when 2 has it, asks the store when 3 has it", s.eng, 0)
		time.Sleep(10 * time.Millisecond)
		refused("refused, when 3 has it", s.eng)
		refused("refused in another process, when 3 has it", other)
		join("waits in another process, when 3 has it", other, 0)
		all.Wait()
		s.want(other.Close(context.Background()), nil)
	},
	// Calls of a rule that is a shadow run at once. All but the first would have waited, or would have
	// been refused or replayed.
	"shadow": func(s *scene) {
		policy, err := core.NewPolicy(core.WithRule(rule), core.WithShadow(), core.WithRunUnlocked())
		s.want(err, nil)
		s.want(checktest.ErrorOf(author.Declare(s.eng, author.Rule{Policy: policy, About: coverage.Rule{}, Like: []string{key}})), nil)
		s.want(checktest.ErrorOf(author.Declare(s.eng, author.Rule{Policy: policy, About: coverage.Rule{Once: true}, Like: []string{key}})), nil)
		var all sync.WaitGroup
		do := func(d time.Duration, opts ...core.CallOption) {
			all.Go(func() {
				s.want(s.eng.Do(s.ctx, key, func(ctx context.Context) error {
					time.Sleep(time.Millisecond) // its span begins after those of what would have been locked
					return s.work(d)(ctx)
				}, append(opts, policy)...), nil)
			})
			time.Sleep(7 * time.Millisecond)
		}
		for range 4 {
			do(30 * time.Millisecond)
		}
		do(time.Millisecond, core.WithFailFast())
		time.Sleep(time.Second)
		do(15 * time.Second)
		time.Sleep(11 * time.Second)
		s.want(checktest.ErrorOf(s.eng.ForceRelease(s.ctx, "%shadow:"+key, "a test")), nil)
		time.Sleep(30 * time.Second)
		for range 2 {
			_, err := s.eng.Once(s.ctx, "msg", func(ctx context.Context) ([]byte, error) {
				time.Sleep(time.Millisecond)
				return s.result(0)(ctx)
			}, policy)
			s.want(err, nil)
			time.Sleep(100 * time.Millisecond)
		}
		s.store.refusal = errDown
		do(0)
		all.Wait()
		time.Sleep(time.Second)
	},
	"extended": func(s *scene) {
		lease, err := s.eng.Acquire(s.ctx, key)
		s.want(err, nil)
		time.Sleep(time.Second)
		s.want(lease.Extend(s.ctx, 40*time.Second), nil)
		canceled, cancel := context.WithCancel(s.ctx)
		cancel()
		s.want(lease.Extend(canceled, 0), context.Canceled)
		s.store.renewErr = errDown
		s.want(lease.Extend(s.ctx, 0), core.ErrUnavailable)
		s.store.renewErr = nil
		s.want(lease.Downgrade(s.ctx), nil)
		s.want(lease.Release(s.ctx), nil)
		s.want(lease.Extend(s.ctx, 0), core.ErrReleased)
	},
	"nested": func(s *scene) {
		s.want(s.eng.Do(s.ctx, key, func(ctx context.Context) error { return s.eng.Do(ctx, key, s.work(time.Second)) }), nil)
		s.want(s.eng.DoAll(s.ctx, []core.Claim{core.Shared(key)}, func(ctx context.Context) error {
			s.want(s.eng.Do(ctx, key, s.work(0)), core.ErrWouldDeadlock)
			return nil
		}), nil)
	},
	"forced": func(s *scene) {
		lease, err := s.eng.Acquire(s.ctx, key, core.WithTTL(6*time.Second))
		s.want(err, nil)
		s.want(checktest.ErrorOf(s.eng.ForceRelease(s.ctx, key, "a person asked")), nil)
		<-lease.Context().Done()
		synctest.Wait() // the watchdog has told of the loss
		s.want(checktest.ErrorOf(s.eng.Once(s.ctx, "once", s.result(0))), nil)
		s.want(checktest.ErrorOf(s.eng.Forget(s.ctx, "once", "a person asked")), nil)
		s.want(lease.Release(s.ctx), core.ErrLeaseLost)
		s.obs.Forced(context.Background(), observe.Removal{Key: key, Reason: "a person asked"}) // outside of any span
	},
	"impaired": func(s *scene) {
		s.obs.StoreImpaired("memory", errors.New("of user 42"))
		s.obs.StoreImpaired("memory", nil)
	},
	"skipped": func(s *scene) {
		index, err := core.NewPolicy(core.WithRule("index"))
		s.want(err, nil)
		for _, why := range []coverage.SkipReason{coverage.SkipSuperseded, coverage.SkipHeld, "what user:status:42 did"} {
			author.Skipped(s.ctx, s.eng, index, why)
		}
	},
	"set": func(s *scene) {
		s.want(s.eng.DoAll(s.ctx, set, s.work(time.Second)), nil)
		s.want(s.eng.DoAll(s.ctx, []core.Claim{core.Shared("a"), core.Shared("b")}, s.work(0)), nil)
	},
	"once": func(s *scene) {
		for range 2 {
			s.want(checktest.ErrorOf(s.eng.Once(s.ctx, key, s.result(time.Second), core.WithRule(rule), core.WithFingerprint([]byte("a")))), nil)
		}
		s.want(checktest.ErrorOf(s.eng.Once(s.ctx, key, s.result(0), core.WithFingerprint([]byte("b")))), core.ErrFingerprintMismatch)
	},
	"once_in_flight": func(s *scene) {
		var all sync.WaitGroup
		all.Go(func() {
			s.want(checktest.ErrorOf(s.eng.Once(s.ctx, key, s.result(3*time.Second))), nil)
		})
		synctest.Wait()
		s.want(checktest.ErrorOf(s.eng.Once(s.ctx, key, s.result(0), core.WithFailFast())), core.ErrHeld)
		s.want(checktest.ErrorOf(s.eng.Once(s.ctx, key, s.result(0), core.WithMaxWait(time.Second))), core.ErrWaitTimeout)
		s.want(checktest.ErrorOf(s.eng.Once(s.ctx, key, s.result(0))), nil)
		all.Wait()
	},
	"once_failed": func(s *scene) {
		own := errors.New("own")
		s.want(checktest.ErrorOf(s.eng.Once(s.ctx, key, func(context.Context) ([]byte, error) { return nil, own })), own)
		s.store.mute.Store(true)
		s.want(checktest.ErrorOf(s.eng.Once(s.ctx, key, s.result(0), core.WithTTL(2*time.Second))), core.ErrOutcomeUnknown)
		synctest.Wait() // the engine has tried a release on its own
		s.store.mute.Store(false)
		s.want(checktest.ErrorOf(s.eng.Once(s.ctx, "", s.result(0))), core.ErrInvalidKey)
	},
	"once_rolled_back": func(s *scene) {
		s.want(checktest.ErrorOf(s.eng.Once(s.ctx, key, s.result(time.Second), core.WithExecutor(deadlocks{}))), core.ErrRolledBack)
	},
	"early": func(s *scene) {
		_ = s.eng.Do(s.ctx, "k", func(ctx context.Context) error { return core.ReleaseEarly(ctx) })
	},
	"once_not_kept": func(s *scene) {
		s.want(checktest.ErrorOf(s.eng.Once(s.ctx, key, s.result(0), core.WithResultLimit(1))), nil)
		s.want(checktest.ErrorOf(s.eng.Once(s.ctx, key, s.result(0))), core.ErrResultNotKept)
	},
	"once_lost": func(s *scene) {
		s.want(checktest.ErrorOf(s.eng.Once(s.ctx, key, s.result(4*time.Second), core.WithMaxHold(3*time.Second))), core.ErrLeaseLost)
	},
	"once_canceled": func(s *scene) {
		ctx, cancel := context.WithTimeout(s.ctx, time.Second)
		defer cancel()
		_, err := s.eng.Once(ctx, key, func(ctx context.Context) ([]byte, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		s.want(err, context.DeadlineExceeded)
	},
	// The handler fails with errors of another lock's, which are its own.
	"once_nested": func(s *scene) {
		defer s.occupy("other")()
		_, err := s.eng.Once(s.ctx, key, func(ctx context.Context) ([]byte, error) {
			_, err := s.eng.TryAcquire(ctx, "other")
			return nil, err
		})
		s.want(err, core.ErrHeld)
		_, err = s.eng.Once(s.ctx, key, func(ctx context.Context) ([]byte, error) {
			return nil, s.eng.Do(ctx, "third", s.work(2*time.Second), core.WithMaxHold(time.Second))
		})
		s.want(err, core.ErrLeaseLost)
	},
}

// deadlocks is an executor whose transactions are always rolled back.
type deadlocks struct{}

func (deadlocks) Validate() error { return nil }

func (deadlocks) Execute(ctx context.Context, _ string, fn func(context.Context) (driver.Record, error)) (driver.Record, bool, error) {
	rec, err := fn(ctx)
	return rec, false, errors.Join(core.ErrRolledBack, err)
}
