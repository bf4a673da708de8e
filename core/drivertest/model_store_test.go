package drivertest

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// process is a store. What a defect of its own does stands next to what should
// be done.
type process struct {
	*backend
	cut     atomic.Bool
	counter atomic.Uint64
	closed  context.Context
	stop    context.CancelFunc
	held    sync.Map // key to grant
	wanted  func(key, owner string)
}

// call has f run on the server, unless nobody answers until ctx ends.
func (p *process) call(ctx context.Context, f func()) error {
	time.Sleep(latency)
	for p.silent.Load() || p.cut.Load() {
		if ctx.Err() != nil {
			return p.outage(ctx.Err())
		}
		time.Sleep(latency)
	}
	p.mu.Lock()
	f()
	p.mu.Unlock()
	time.Sleep(latency)
	return nil
}

func (p *process) outage(err error) error {
	switch {
	case p.has("an outage is a loss"):
		return &driver.LeaseLostError{Reason: driver.LossTaken}
	case p.has("an outage is success"):
		return nil
	}
	return &driver.UnavailableError{Op: "call", Err: err}
}

func (p *process) Describe() driver.Description {
	return driver.Description{Shared: true, Permits: true, Sets: true, MinHold: true, Ledger: true, Inspector: true, OnWanted: p.onWanted}
}

func (p *process) Acquire(ctx context.Context, req driver.Request) (driver.Grant, error) {
	g, _, err := p.ask(ctx, req, false)
	return g, err
}

func (p *process) Begin(ctx context.Context, req driver.Request) (driver.Grant, *driver.Record, error) {
	if p.has("Begin looks up first, then claims") {
		var rec *driver.Record
		if err := p.call(ctx, func() {
			if r, ok := p.records[req.Claims[0].Key]; ok {
				rec = &r.Record
			}
		}); err != nil || rec != nil {
			return driver.Grant{}, rec, err
		}
		return p.ask(ctx, req, false)
	}
	return p.ask(ctx, req, true)
}

func (p *process) ask(ctx context.Context, req driver.Request, once bool) (driver.Grant, *driver.Record, error) {
	if p.has("waiters are told when they have gone") && req.OnHeld != nil {
		defer func() {
			time.AfterFunc(pollEvery, func() { req.OnHeld(driver.HeldError{Key: req.Claims[0].Key}) })
		}()
	}
	first, releases := true, 0
	for ; ; first = false {
		if p.isClosed() && !p.has("Close changes nothing") {
			return driver.Grant{}, nil, driver.ErrClosed
		}
		var r reply
		sent := time.Now()
		err := p.call(ctx, func() { r = p.try(p, req, once, first) })
		if p.has("refusals name the wrong holder") {
			r.held.Holder = req.Owner
		}
		switch {
		case err != nil && p.has("an outage is contention"):
			return driver.Grant{}, nil, &r.held
		case err != nil && p.has("a request that got no answer takes the key for ever"):
			p.mu.Lock()
			forEver := req
			forEver.TTL = time.Hour
			p.try(p, forEver, false, true)
			p.mu.Unlock()
		}
		if err != nil {
			return driver.Grant{}, nil, err
		}
		if r.err != nil {
			return driver.Grant{}, nil, r.err
		}
		p.tellLender(r, once)
		if r.rec != nil || r.granted {
			g, rec := p.grant(req, r, sent)
			return g, rec, nil
		}
		if !req.Wait && !p.has("nobody is refused at once") {
			return driver.Grant{}, nil, &r.held
		}
		if req.OnHeld != nil && (first || p.has("a release wakes all") && r.releases != releases) {
			req.OnHeld(r.held)
		}
		releases = r.releases
		select {
		case <-ctx.Done():
			if p.has("a wait ends with the context's error") {
				p.leave(req)
				return driver.Grant{}, nil, ctx.Err()
			}
			if err := p.leave(req); err != nil {
				return driver.Grant{}, nil, err
			}
			return driver.Grant{}, nil, &r.held
		case <-p.closing():
			p.leave(req)
			return driver.Grant{}, nil, driver.ErrClosed
		case <-time.After(pollEvery):
		}
	}
}

func (p *process) closing() <-chan struct{} {
	if p.has("Close changes nothing") {
		return nil
	}
	return p.closed.Done()
}

func (p *process) grant(req driver.Request, r reply, sent time.Time) (driver.Grant, *driver.Record) {
	if r.rec != nil {
		return driver.Grant{}, &driver.Record{Result: slices.Clone(r.rec.Result), Fingerprint: slices.Clone(r.rec.Fingerprint), Trace: r.rec.Trace, ResultNotKept: r.rec.ResultNotKept && !p.has("what was not kept is empty")}
	}
	g := driver.Grant{Owner: req.Owner, Claims: req.Claims, TTL: req.TTL, Token: r.token, HandOffs: r.reserved, Lingers: r.lingers, Since: sent}
	switch {
	case p.has("the lease counts from the answer"):
		g.Since = time.Now()
	case p.has("the lease counts from the future"):
		g.Since = time.Now().Add(time.Second)
	case p.has("owners are kept in ASCII"):
		g.Owner = strings.Map(func(r rune) rune { return r & 0x7f }, g.Owner)
	}
	p.held.Store(req.Claims[0].Key, g)
	return g, nil
}

// leave takes req out of the line, and what it got meanwhile from it, whatever
// has become of the caller.
func (p *process) leave(req driver.Request) error {
	ctx, cancel := context.WithTimeout(context.Background(), leaveWithin)
	defer cancel()
	return p.call(ctx, func() {
		for _, c := range req.Claims {
			e := p.at(c.Key)
			t := e.ticket(req.Owner)
			switch {
			case t != nil && (p.has("waiters that gave up stay") || p.has("waiters of a closed process stay") && p.isClosed()):
				t.haunt()
			default:
				p.undo(req.Owner, []driver.Claim{c})
			}
		}
	})
}

func (p *process) Renew(ctx context.Context, grants []driver.Grant) []error {
	errs := make([]error, len(grants))
	err := p.call(ctx, func() {
		for i, g := range grants {
			errs[i] = p.renew(g)
		}
	})
	switch {
	case err != nil:
		return slices.Repeat([]error{err}, len(grants))
	case p.has("failures come back first"):
		slices.SortStableFunc(errs, func(a, b error) int {
			if (a == nil) == (b == nil) {
				return 0
			} else if a != nil {
				return -1
			}
			return 1
		})
	}
	return errs
}

func (p *process) Downgrade(ctx context.Context, g driver.Grant) error {
	if p.has("a downgrade leaves a gap") {
		_ = p.Release(ctx, g)
		_, _ = p.Acquire(ctx, driver.Request{Owner: g.Owner, Claims: g.Claims, TTL: g.TTL})
		return nil
	}
	var err error
	out := p.call(ctx, func() { err = p.downgrade(g) })
	if out != nil && p.has("an unanswered downgrade is undone") {
		p.mu.Lock()
		p.undo(g.Owner, g.Claims)
		p.mu.Unlock()
	}
	if out != nil {
		return out
	}
	return err
}

func (p *process) Release(ctx context.Context, g driver.Grant) error {
	var err error
	broken := p.cut.Load() || p.silent.Load()
	if out := p.call(ctx, func() { err = p.release(g) }); out != nil {
		return out
	}
	if p.has("an outage is success") && p.silent.Load() {
		return nil
	}
	if broken && g.Since.IsZero() && p.has("a repeated release never fails") {
		return nil
	}
	return err
}

func (p *process) Complete(ctx context.Context, g driver.Grant, rec driver.Record, retention time.Duration) error {
	var err error
	if out := p.call(ctx, func() { err = p.complete(g, rec, retention) }); out != nil {
		return out
	}
	return err
}

func (p *process) Close() error {
	if p.has("Close releases leases") {
		p.held.Range(func(_, g any) bool {
			_ = p.Release(context.Background(), g.(driver.Grant))
			return true
		})
	}
	p.stop()
	return nil
}

func (p *process) isClosed() bool { return p.closed.Err() != nil }
