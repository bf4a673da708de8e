package storetest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
)

// A model of a backend behind a network, and of the stores that use it: small,
// slow and right, unless it is told to have a defect. The suite must pass it as
// it is, and reject it with each defect.

const (
	latency     = 2 * time.Millisecond  // of a message, one way
	pollEvery   = 23 * time.Millisecond // how often a waiter asks
	waiterLease = 99 * time.Millisecond // silence after which a waiter is dead
	leaveWithin = 100 * time.Millisecond
)

// backend is the server.
type backend struct {
	defect string
	silent atomic.Bool

	mu      sync.Mutex
	keys    map[string]*state
	records map[string]finished
	last    uint64
}

type state struct {
	owner    string
	token    uint64
	expires  time.Time
	queue    []*ticket
	releases int
}

type ticket struct {
	owner string
	seen  time.Time
}

type finished struct {
	core.Record
	owner   string
	expires time.Time
}

func newBackend(defect string) *backend {
	b := &backend{defect: defect}
	b.lose()
	return b
}

// lose is a restart without the data.
func (b *backend) lose() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.keys, b.records, b.last = make(map[string]*state), make(map[string]finished), 0
}

func (b *backend) has(defect string) bool { return b.defect == defect }

// harness breaks the backend in every way there is.
func (b *backend) harness() Harness {
	return Harness{
		New: func(testing.TB) core.Store {
			p := &process{backend: b, closed: make(chan struct{})}
			p.counter.Store(uint64(time.Now().UnixMicro()))
			return p
		},
		TTL:     200 * time.Millisecond,
		Early:   time.Millisecond,
		Late:    200 * time.Millisecond,
		Restart: func(testing.TB) { b.lose() },
		Pause:   func(testing.TB) { b.silent.Store(true) },
		Resume:  func(testing.TB) { b.silent.Store(false) },
		Cut:     func(_ testing.TB, st core.Store) { st.(*process).cut.Store(true) },
		Heal:    func(_ testing.TB, st core.Store) { st.(*process).cut.Store(false) },
	}
}

// at returns the state of key as it is now.
func (b *backend) at(key string) *state {
	if b.has("keys are trimmed") {
		key = strings.TrimSpace(key)
	}
	if b.has("keys are folded") {
		key = strings.ToLower(key)
	}
	if b.has("keys end at 500 bytes") {
		key = key[:min(len(key), 500)]
	}
	e := b.keys[key]
	if e == nil {
		e = &state{}
		b.keys[key] = e
	}
	now := time.Now()
	if !now.Before(e.expires) && !b.has("leases never end") {
		e.owner = ""
	}
	if !b.has("dead waiters stay") {
		e.queue = slices.DeleteFunc(e.queue, func(t *ticket) bool { return now.Sub(t.seen) > waiterLease })
	}
	return e
}

type reply struct {
	granted  bool
	token    uint64
	rec      *core.Record
	holder   string
	retry    time.Duration
	releases int
}

// try is one attempt of a request.
func (b *backend) try(p *process, req core.Request, once, first bool) reply {
	key, now := req.Claims[0].Key, time.Now()
	if once && !b.has("Begin forgets to look up") {
		if r, ok := b.records[key]; ok && (now.Before(r.expires) || b.has("records never end")) {
			rec := r.Record
			return reply{rec: &rec}
		}
	}
	e := b.at(key)
	turn := slices.IndexFunc(e.queue, func(t *ticket) bool { return t.owner == req.Owner })
	mine := turn == 0 || len(e.queue) == 0
	switch {
	case b.has("last come, first served"):
		mine = turn == len(e.queue)-1
	case b.has("requests overtake the line"):
		mine = mine || !req.Wait
	case b.has("a release serves two") && e.releases > 0 && turn >= 0:
		mine, e.owner = turn < 2, ""
	}
	switch {
	case e.owner == req.Owner && !b.has("the owner is refused its own key"):
		if b.has("a second request gets a second token") {
			e.token = b.token(p, e)
		}
		if b.has("a second request waits in line") && len(e.queue) > 0 && req.Wait {
			break
		}
		if !b.has("a second request extends nothing") {
			e.expires = now.Add(req.TTL)
		}
		return reply{granted: true, token: e.token}
	case (e.owner == "" || b.has("everybody gets the key")) && mine:
		e.queue = slices.DeleteFunc(e.queue, func(t *ticket) bool { return t.owner == req.Owner })
		e.owner, e.token, e.expires = req.Owner, b.token(p, e), now.Add(req.TTL)
		switch {
		case b.has("leases end early"):
			e.expires = now.Add(req.TTL * 9 / 10)
		case b.has("leases end late"):
			e.expires = now.Add(req.TTL + req.TTL/2 + 200*time.Millisecond)
		case b.has("leases of waiters never end") && !first:
			e.expires = now.Add(time.Hour)
		}
		return reply{granted: true, token: e.token}
	}
	if turn < 0 && (req.Wait || b.has("the refused stay in line")) {
		turn = len(e.queue)
		e.queue = append(e.queue, &ticket{owner: req.Owner})
	}
	if turn >= 0 {
		e.queue[turn].seen = now
		if b.has("the refused stay in line") && !req.Wait {
			e.queue[turn].seen = now.Add(time.Hour)
		}
	}
	return reply{holder: e.owner, retry: max(0, e.expires.Sub(now)), releases: e.releases}
}

func (b *backend) token(p *process, e *state) uint64 {
	switch {
	case b.has("each process counts tokens"):
		return p.counter.Add(1)
	case b.has("tokens are random"):
		return uint64(time.Now().UnixMicro()) ^ 0xff00
	case b.has("a token per holder, not per grant") && e.token != 0:
		return e.token
	case b.has("tokens are a counter"):
		b.last++
	case b.has("tokens are zero"):
		return 0
	case b.has("tokens are the clock in ms"):
		b.last = max(b.last+1, uint64(time.Now().UnixMilli()))
	default:
		b.last = max(b.last+1, uint64(time.Now().UnixMicro()))
	}
	return b.last
}

// owns says whether g is in force.
func (b *backend) owns(e *state, g core.Grant) bool {
	switch {
	case b.has("owners are compared by prefix"):
		return e.owner != "" && (strings.HasPrefix(e.owner, g.Owner) || strings.HasPrefix(g.Owner, e.owner))
	case b.has("owners are not compared"):
		return e.owner != ""
	}
	return e.owner != "" && e.owner == g.Owner
}

func (b *backend) renew(g core.Grant) error {
	e := b.at(g.Claims[0].Key)
	now := time.Now()
	switch {
	case b.has("renewals do nothing"):
		return nil
	case b.has("renewals bring leases back") && e.owner == "":
		e.owner, e.token = g.Owner, g.Token
	case b.has("renewals take leases over"):
		e.owner = g.Owner
	case b.has("a failed renewal extends") && !b.owns(e, g):
		e.expires = now.Add(g.TTL)
	}
	if !b.owns(e, g) {
		if b.has("a loss is just an error") {
			return errors.New("no such lease")
		}
		return lost(g)
	}
	e.expires = now.Add(g.TTL)
	return nil
}

func lost(g core.Grant) error {
	return &core.LeaseLostError{Key: g.Claims[0].Key, Token: g.Token, Reason: core.LossTaken}
}

func (b *backend) release(g core.Grant) error {
	e := b.at(g.Claims[0].Key)
	if b.has("releases do nothing") {
		return nil
	}
	if !b.owns(e, g) {
		switch {
		case b.has("a release never fails"):
			return nil
		case b.has("a loss is just an error"):
			return errors.New("no such lease")
		}
		return lost(g)
	}
	e.owner = ""
	e.releases++
	if b.has("a release leaves the line to the clock") && len(e.queue) > 0 {
		e.owner = "nobody"
	}
	return nil
}

func (b *backend) complete(g core.Grant, rec core.Record, retention time.Duration) error {
	e := b.at(g.Claims[0].Key)
	key, now := g.Claims[0].Key, time.Now()
	if !b.has("records keep the caller's memory") {
		rec = core.Record{Result: slices.Clone(rec.Result), Fingerprint: slices.Clone(rec.Fingerprint)}
	}
	done := finished{Record: rec, owner: g.Owner, expires: now.Add(retention)}
	switch {
	case b.has("records end with the lease"):
		done.expires = e.expires
	case b.has("records end at once"):
		done.expires = now
	case b.has("results are text"):
		done.Result = []byte(strings.ToValidUTF8(string(rec.Result), "?"))
	case b.has("fingerprints are trimmed"):
		done.Fingerprint = []byte(strings.TrimSpace(string(rec.Fingerprint)))
	case b.has("results are cut"):
		done.Result = rec.Result[:min(len(rec.Result), 1000)]
	case b.has("a lost lease's record is kept"):
		b.records[key] = done
	}
	if !b.owns(e, g) {
		r, ok := b.records[key]
		switch {
		case b.has("anybody completes again") && ok:
			b.records[key] = done
			return nil
		case ok && r.owner == g.Owner && now.Before(r.expires) && !b.has("Complete can't be repeated"):
			return nil
		}
		return lost(g)
	}
	b.records[key] = done
	if !b.has("Complete keeps the lease") {
		e.owner = ""
	}
	return nil
}

// process is a store. What a defect of its own does stands next to what should
// be done.
type process struct {
	*backend
	cut       atomic.Bool
	counter   atomic.Uint64
	closed    chan struct{}
	closeOnce sync.Once
	held      sync.Map // key to grant
}

// call has f run on the server, unless nobody answers until ctx ends.
func (p *process) call(ctx context.Context, f func()) error {
	time.Sleep(latency)
	for p.silent.Load() || p.cut.Load() {
		if p.has("an outage outlasts the context") {
			time.Sleep(time.Minute)
		}
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
	case p.has("an outage is the context's error"):
		return err
	case p.has("an outage is a loss"):
		return &core.LeaseLostError{Reason: core.LossTaken}
	case p.has("an outage is success"):
		return nil
	}
	return &core.UnavailableError{Op: "call", Err: err}
}

func (p *process) Acquire(ctx context.Context, req core.Request) (core.Grant, error) {
	g, _, err := p.ask(ctx, req, false)
	return g, err
}

func (p *process) Begin(ctx context.Context, req core.Request) (core.Grant, *core.Record, error) {
	if p.has("Begin looks up first, then claims") {
		var rec *core.Record
		if err := p.call(ctx, func() {
			if r, ok := p.records[req.Claims[0].Key]; ok {
				rec = &r.Record
			}
		}); err != nil || rec != nil {
			return core.Grant{}, rec, err
		}
		return p.ask(ctx, req, false)
	}
	return p.ask(ctx, req, true)
}

func (p *process) ask(ctx context.Context, req core.Request, once bool) (core.Grant, *core.Record, error) {
	key := req.Claims[0].Key
	heldError := func(r reply) error {
		switch {
		case p.has("refusals are untyped"):
			return core.ErrHeld
		case p.has("refusals name the wrong holder"):
			r.holder = req.Owner
		case p.has("refusals name no key"):
			key = ""
		case p.has("contention is an outage"):
			return &core.UnavailableError{Op: "acquire", Err: errors.New("lock timeout")}
		}
		return &core.HeldError{Key: key, Holder: r.holder, RetryAfter: r.retry}
	}
	began, first, releases := time.Now(), true, 0
	for ; ; first = false {
		if p.isClosed() && !p.has("Close changes nothing") {
			return core.Grant{}, nil, core.ErrClosed
		}
		var r reply
		sent := time.Now()
		err := p.call(ctx, func() { r = p.try(p, req, once, first) })
		switch {
		case err != nil && p.has("an outage is contention"):
			return core.Grant{}, nil, heldError(r)
		case err != nil && !first && p.has("an outage during a wait is contention"):
			return core.Grant{}, nil, heldError(r)
		case err != nil && p.has("a request that got no answer takes the key for ever"):
			p.mu.Lock()
			*p.at(key) = state{owner: req.Owner, expires: time.Now().Add(time.Hour)}
			p.mu.Unlock()
		}
		if err != nil {
			return core.Grant{}, nil, err
		}
		if r.rec != nil || r.granted {
			g, rec := p.grant(req, r, began, sent)
			return g, rec, nil
		}
		if !req.Wait && !p.has("nobody is refused at once") {
			return core.Grant{}, nil, heldError(r)
		}
		if req.OnHeld != nil && (first || p.has("a release wakes all") && r.releases != releases) {
			req.OnHeld(core.HeldError{Key: key, Holder: r.holder, RetryAfter: r.retry})
		}
		releases = r.releases
		select {
		case <-ctx.Done():
			if p.has("a wait ends with the context's error") {
				p.leave(key, req.Owner)
				return core.Grant{}, nil, ctx.Err()
			}
			if err := p.leave(key, req.Owner); err != nil {
				return core.Grant{}, nil, err
			}
			return core.Grant{}, nil, heldError(r)
		case <-p.closing():
			p.leave(key, req.Owner)
			if p.has("Close cancels waits") {
				return core.Grant{}, nil, context.Canceled
			}
			return core.Grant{}, nil, core.ErrClosed
		case <-time.After(pollEvery):
		}
	}
}

func (p *process) closing() <-chan struct{} {
	if p.has("Close changes nothing") {
		return nil
	}
	return p.closed
}

func (p *process) grant(req core.Request, r reply, began, sent time.Time) (core.Grant, *core.Record) {
	if r.rec != nil {
		if p.has("a grant comes with the record") {
			return core.Grant{Owner: req.Owner, Claims: req.Claims, TTL: req.TTL, Token: 1}, r.rec
		}
		if p.has("records give out their memory") {
			return core.Grant{}, r.rec
		}
		return core.Grant{}, &core.Record{Result: slices.Clone(r.rec.Result), Fingerprint: slices.Clone(r.rec.Fingerprint)}
	}
	g := core.Grant{Owner: req.Owner, Claims: req.Claims, TTL: req.TTL, Token: r.token, Since: sent}
	switch {
	case p.has("the lease counts from the answer"):
		g.Since = time.Now()
	case p.has("the lease counts from the call"):
		g.Since = began
	case p.has("the lease counts from nothing"):
		g.Since = time.Time{}
	case p.has("the lease counts from the future"):
		g.Since = time.Now().Add(time.Second)
	case p.has("grants name another TTL"):
		g.TTL /= 2
	}
	p.held.Store(req.Claims[0].Key, g)
	return g, nil
}

// leave takes owner out of the line, whatever has become of the caller.
func (p *process) leave(key, owner string) error {
	ctx, cancel := context.WithTimeout(context.Background(), leaveWithin)
	defer cancel()
	return p.call(ctx, func() {
		e := p.at(key)
		i := slices.IndexFunc(e.queue, func(t *ticket) bool { return t.owner == owner })
		switch {
		case i < 0:
		case p.has("waiters that gave up stay"), p.has("waiters of a closed process stay") && p.isClosed():
			e.queue[i].seen = time.Now().Add(time.Hour)
		default:
			e.queue = slices.Delete(e.queue, i, i+1)
		}
	})
}

func (p *process) Renew(ctx context.Context, grants []core.Grant) []error {
	errs := make([]error, len(grants))
	err := p.call(ctx, func() {
		for i, g := range grants {
			errs[i] = p.renew(g)
			if errs[i] != nil && p.has("the first failure ends a renewal") {
				return
			}
		}
	})
	switch {
	case err != nil:
		for i := range errs {
			errs[i] = err
		}
	case p.has("one failure fails all") && errors.Join(errs...) != nil:
		for i := range errs {
			errs[i] = lost(grants[i])
		}
	case p.has("failures come back alone"):
		errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
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

func (p *process) Release(ctx context.Context, g core.Grant) error {
	var err error
	if out := p.call(ctx, func() { err = p.release(g) }); out != nil {
		if p.has("a release nobody answered poisons the lease") {
			p.held.Store("poisoned", g)
		}
		return out
	}
	if _, ok := p.held.Load("poisoned"); ok {
		return errors.New("release: already under way")
	}
	if p.has("an outage is success") && p.silent.Load() {
		return nil
	}
	return err
}

func (p *process) Complete(ctx context.Context, g core.Grant, rec core.Record, retention time.Duration) error {
	var err error
	if out := p.call(ctx, func() { err = p.complete(g, rec, retention) }); out != nil {
		return out
	}
	return err
}

func (p *process) Close() error {
	if p.has("Close releases leases") {
		p.held.Range(func(_, g any) bool {
			_ = p.Release(context.Background(), g.(core.Grant))
			return true
		})
	}
	p.closeOnce.Do(func() { close(p.closed) })
	return nil
}

func (p *process) isClosed() bool {
	select {
	case <-p.closed:
		return true
	default:
		return false
	}
}
