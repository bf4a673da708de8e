package core

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/observe"
)

// WithShadow makes [Engine.Do], [Engine.DoAll] and [Engine.Once] run the function at once and
// without a lock, and show what the lock would have done. It refuses nobody and delays nobody, whatever
// the store does. It is for rules in a service that runs: keys, modes, TTLs and waits can be chosen
// before anything depends on them.
//
// Beside the function, the engine rehearses the call on a key of its own, "%shadow:" and the key. The
// rehearsal waits in line and is granted or refused as the call would be, and then holds that key for
// as long as the function took. For Once it also keeps a record, without a result. So calls of all
// processes compete, each under its options. The hooks are told as usual, and see that it is a shadow
// (observe.Acquisition, observe.Execution, observe.Lease): a "wait_timeout" is a call that would have
// been refused, a duplicate one that would have been replayed.
//
// A key that can't be claimed, such as "", runs the function, too: middlewares pass it for a request
// of which no key can be made. The hooks are told of a claim without a key.
//
// The function's context has no lease, so [AssertHeld] fails there. A shadow competes with shadows
// only, not with real locks of the same key. Each call costs a goroutine and the store's work for a
// real lock. At most 5000 rehearsals are under way at a time, so that a slow store costs some 100 MB
// at most. A call beyond that is not rehearsed; the hooks are told (observe.ErrNotRehearsed). A
// rehearsal ends with the engine.
//
// [Engine.Acquire], [Engine.TryAcquire], [Engine.AcquireAll] and [Engine.Lead] have to return a lease,
// and [Engine.AdvanceVersion] a version, so there it is an [*OptionError]. So it is with [WithExecutor].
// Off by default.
func WithShadow() CallOption {
	return callOption(func(s *settings) error {
		s.shadow = shadowed
		return nil
	})
}

// shadowState says whether a call is real.
type shadowState uint8

const (
	notShadow shadowState = iota
	shadowed              // the call runs without a lock
	rehearsed             // the call takes the shadow's lock
)

// noShadow refuses the option for calls that cannot keep it.
func (s *settings) noShadow() error {
	return driver.CheckOption(s.shadow != shadowed, "WithShadow", true, "no such option except for Do, DoAll and Once, and without WithExecutor")
}

// doShadow is doClaims without a lock.
func (e *Engine) doShadow(ctx context.Context, claims []Claim, s *settings, fn func(context.Context) error) (err error) {
	r := e.rehearse(ctx, claims, s, func(ctx context.Context, r *rehearsal) error {
		return e.doPlain(ctx, r.claims, r.settings, r.hold)
	})
	defer func() { r.end(err) }()
	err = observe.ErrPanicked // unless fn returns
	err = fn(r.ctx)
	return err
}

// onceShadow is Once without a lock and without a record.
func (e *Engine) onceShadow(ctx context.Context, key string, fn func(context.Context) ([]byte, error), s *settings) (out Outcome, err error) {
	r := e.rehearse(ctx, []Claim{Exclusive(key)}, s, func(ctx context.Context, r *rehearsal) error {
		_, err := e.onceTold(ctx, r.claims[0].Key, func(ctx context.Context) ([]byte, error) {
			if err := r.hold(ctx); err != nil {
				return nil, err
			}
			return nil, r.failed
		}, r.settings)
		return err
	})
	failed := observe.ErrPanicked // unless fn returns
	defer func() { r.end(failed) }()
	out.Result, err = fn(r.ctx)
	failed = err
	if err == ErrSkipResult {
		out.ResultNotKept, err = true, nil
	} else if err == nil && len(out.Result) > s.resultLimit {
		out.ResultNotKept, failed = true, ErrSkipResult
	}
	return out, err
}

// mostRehearsals is how many rehearsals are under way at a time. Each may wait for as long as its
// rule says, in some 20 KB.
const mostRehearsals = 5000

// rehearsal shows what a call would have done to its claims.
type rehearsal struct {
	engine   *Engine
	ctx      context.Context // the function's
	claims   []Claim         // of the shadow
	settings *settings
	began    time.Time

	done   chan struct{} // closed when the function has returned; then:
	took   time.Duration
	failed error
}

// rehearse begins a rehearsal, unless there is nothing to rehearse: the claims are wrong, ctx
// holds them, or the engine is closed. play makes the call.
func (e *Engine) rehearse(ctx context.Context, claims []Claim, s *settings, play func(context.Context, *rehearsal) error) *rehearsal {
	shaped := s.shape(claims)
	r := &rehearsal{engine: e, ctx: ctx, settings: s.rehearsed(), began: time.Now(), done: make(chan struct{})}
	if err := sortClaims(shaped); err != nil {
		e.unrehearsed(ctx, []Claim{{}}, s, e.showError(err))
		return r
	}
	for _, c := range shaped {
		if !e.covers(ctx, c) {
			c.Key = shadowKey(c.Key)
			r.claims = append(r.claims, c)
		}
	}
	reg := e.life.register(shaped[0].Key)
	if len(r.claims) == 0 || reg.enter() != nil {
		return r
	}
	if e.rehearsals.Add(1) > mostRehearsals {
		e.rehearsals.Add(-1)
		reg.leave()
		e.unrehearsed(ctx, shaped, s, observe.ErrNotRehearsed)
		return r
	}
	r.ctx = context.WithValue(ctx, shadowsKey{}, &shadows{engine: e, claims: shaped, outer: shadowsOf(ctx)})
	go func() {
		defer reg.leave() // Close waits for it
		defer e.rehearsals.Add(-1)
		// The caller's deadline would end a real wait, too. Its cancel usually means that the
		// function has returned.
		ctx, cancel := context.WithoutCancel(ctx), context.CancelFunc(func() {})
		if at, ok := r.ctx.Deadline(); ok {
			ctx, cancel = context.WithDeadline(ctx, at)
		}
		defer cancel()
		_ = play(ctx, r) // the hooks were told
	}()
	return r
}

// rehearsed returns the settings of a rehearsal. Its claims have their modes already.
func (s *settings) rehearsed() *settings {
	own := *s
	own.shadow, own.mode, own.permits, own.hierarchy, own.linger, own.moveFrom = rehearsed, driver.ModeExclusive, 0, false, 0, nil
	return &own
}

// end notes that the function has returned.
func (r *rehearsal) end(failed error) {
	r.took, r.failed = time.Since(r.began), failed
	close(r.done)
}

// errCut ends a rehearsal before its time: nothing is recorded.
var errCut = errors.New("keyturn: the engine is closed, or the lease was lost")

// hold is the function of a rehearsal. It takes as long as the real one.
func (r *rehearsal) hold(ctx context.Context) error {
	granted := time.Now()
	ending := r.engine.life.ending.Done()
	select {
	case <-r.done:
	case <-ending:
		return errCut
	}
	select {
	case <-time.After(r.took - time.Since(granted)):
		return nil
	case <-ending:
	case <-lostOf(ctx):
	}
	return errCut
}

// lostOf returns a channel that is closed when the lease of ctx has ended. The context itself also
// ends with the caller's deadline, which a holder outlives.
func lostOf(ctx context.Context) <-chan struct{} {
	if l, ok := LeaseFrom(ctx); ok {
		return l.Done()
	}
	return nil
}

// shadowKey is the key that a rehearsal locks. No template renders a "%" that two digits do not
// follow, so it is nobody else's.
func shadowKey(key string) string {
	const prefix = "%shadow:"
	if len(prefix)+len(key) <= driver.MaxKeyBytes {
		return prefix + key
	}
	sum := sha256.Sum256([]byte(key))
	return prefix + hex.EncodeToString(sum[:])
}

// shadows lists the claims whose rehearsals a context is under.
type shadows struct {
	engine *Engine
	claims []Claim
	outer  *shadows
}

type shadowsKey struct{}

func shadowsOf(ctx context.Context) *shadows {
	s, _ := ctx.Value(shadowsKey{}).(*shadows)
	return s
}

// covers reports whether ctx holds c, really or as a shadow. A call within it would be nested.
func (e *Engine) covers(ctx context.Context, c Claim) bool {
	for s := shadowsOf(ctx); s != nil; s = s.outer {
		if s.engine == e && slices.ContainsFunc(s.claims, func(held Claim) bool { return held.Key == c.Key && covers(held.Mode, c) }) {
			return true
		}
	}
	held, holder, _ := e.heldIn(chainOf(ctx), c)
	return holder != nil && covers(held.Mode, c)
}

// unrehearsed tells the hooks of a call that is not rehearsed because of err.
func (e *Engine) unrehearsed(ctx context.Context, claims []Claim, s *settings, err error) {
	if e.hooks != nil {
		a := e.acquisition(claims, s)
		e.hooks.acquireEnd(e.hooks.acquireStart(ctx, a), a, nil, err)
	}
}
