package core

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// Lead runs fn while this process leads, that is while it holds key. It campaigns first: it waits
// for key, for as long as ctx allows. If the lease is lost while fn runs, Lead campaigns again as
// soon as fn has returned, whatever fn returned, and calls fn again when it leads again. It is for
// work that one process of a fleet does at a time: a scheduler, a consumer, a compaction.
//
// fn's context is the lease's, as in [Engine.Do]. It ends before the store lets another process
// lead; docs/guarantees.md has the exceptions. So fn must return when its context ends: if it goes
// on, two processes work. The fencing token of its lease ([LeaseFrom]) tells a leader from its
// predecessor.
//
// Lead returns when fn returns while it still leads: what fn returned, as it is. A fn that has
// nothing more to do returns nil, and another process then leads. Lead also returns when ctx ends,
// and with every error of [Engine.Do] that no further campaign could mend, such as ErrInvalidKey
// or ErrClosed. A silent store (ErrUnavailable) and ErrTooManyWaiters only delay the campaign: it
// is repeated after pauses that grow from 0.1 s to 2 s.
//
// The options are those of Do, with other defaults, whatever [New] says: a leader waits and leads
// without a bound ([Forever]). With [WithMaxHold] a leader steps down after that time, and processes
// that wait lead before it does so again. With [WithMaxWait] or [WithFailFast], a campaign may end in
// ErrHeld, and Lead with it. [WithPermits] has several leaders. [WithRunUnlocked] and
// [WithoutCancelOnLoss] have no effect, because two processes would lead.
func (e *Engine) Lead(ctx context.Context, key string, fn func(context.Context) error, opts ...CallOption) error {
	if fn == nil {
		return errNoFunction
	}
	pause := leadPause{}
	for {
		led, deposed, err := e.leadOnce(ctx, key, fn, opts)
		switch {
		case led && !deposed:
			return err
		case led:
			pause = leadPause{} // the store answers
		case !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrTooManyWaiters):
			return err
		default:
			if pause.wait(ctx, e.life.ending); ctx.Err() != nil {
				return fmt.Errorf("keyturn: campaigning for %q: %w", e.ShowKey(key), ctx.Err())
			}
		}
	}
}

// leadOnce is one campaign and, if it is won, one time as leader. err is fn's own, or says why the
// campaign was lost. Each campaign makes its settings anew, because [Engine.Bind] may have brought the
// store that has to keep them.
func (e *Engine) leadOnce(ctx context.Context, key string, fn func(context.Context) error, opts []CallOption) (led, deposed bool, err error) {
	s, err := e.leadSettings(opts)
	if err != nil {
		return false, false, err
	}
	var own error
	err = e.doClaims(ctx, []Claim{Exclusive(key)}, s, func(ctx context.Context) error {
		led, own = true, fn(ctx)
		return nil
	})
	if led {
		return true, errors.Is(err, ErrLeaseLost), own
	}
	return false, false, err
}

// leadSettings applies the options to defaults without the bounds of New. They are for requests,
// and would depose a healthy leader.
func (e *Engine) leadSettings(opts []CallOption) (*settings, error) {
	b := e.backend()
	s := b.defaults
	s.maxWait, s.failFast, s.maxHold = 0, false, 0
	if err := errors.Join(s.apply(opts), s.fit(b.about), s.noShadow()); err != nil {
		return nil, err
	}
	s.runUnlocked, s.keepContext = false, false
	return &s, nil
}

const (
	firstLeadPause = 100 * time.Millisecond
	mostLeadPause  = 2 * time.Second
)

// leadPause is the pause before the next campaign. It is random, because all processes of a fleet
// campaign at the end of an outage.
type leadPause struct{ last time.Duration }

func (p *leadPause) wait(ctx, ending context.Context) {
	p.last = min(max(2*p.last, firstLeadPause), mostLeadPause)
	select {
	case <-time.After(p.last/2 + rand.N(p.last/2)):
	case <-ctx.Done():
	case <-ending.Done():
	}
}
