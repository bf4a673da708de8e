package redisstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/keyturn/keyturn/core"
)

// Acquire implements [core.Store].
func (s *Store) Acquire(ctx context.Context, req core.Request) (core.Grant, error) {
	g, _, err := s.acquire(ctx, req, false)
	return g, err
}

// asking is one Acquire or Begin under way.
type asking struct {
	s    *Store
	req  core.Request
	key  string
	once bool // a record will do as well

	seat   seat
	queued bool      // the server may have put it in line
	told   time.Time // when the server last said that the key is held
	held   core.HeldError
}

// answer is what the server said. Of grant, record and held one is set.
type answer struct {
	grant  core.Grant
	record *core.Record
	held   bool
	ttl    time.Duration // of the holder; below 0: it has none
	ahead  time.Duration // claim time of the one ahead in line; below 0: nobody
}

func (s *Store) acquire(ctx context.Context, req core.Request, once bool) (core.Grant, *core.Record, error) {
	key, err := check(req.Owner, req.Claims, req.TTL)
	if err != nil {
		return core.Grant{}, nil, err
	}
	if err := s.enter(); err != nil {
		return core.Grant{}, nil, err
	}
	defer s.leave()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	a := &asking{s: s, req: req, key: key, once: once}
	if req.Wait {
		a.seat = s.inbox.sit(req.Owner)
		defer s.inbox.rise(req.Owner)
	}
	ans, err := a.run(ctx)
	return ans.grant, ans.record, err
}

// run asks until the answer is final.
//
// The first question of a process that has no inbox yet is put without getting
// in line: whoever is in line and can't be reached is passed over.
func (a *asking) run(ctx context.Context) (answer, error) {
	inbox := a.s.inbox.address()
	getInLine := a.req.Wait && inbox != ""
	for {
		ans, err := a.ask(ctx, getInLine, inbox)
		switch {
		case err != nil:
			return answer{}, err
		case !ans.held:
			return ans, nil
		case !a.req.Wait:
			return answer{}, &a.held
		case !getInLine:
			a.s.inbox.connect(ctx, a.s.cfg.poll())
			getInLine, inbox = true, a.s.inbox.address()
			continue
		}
		if a.req.OnHeld != nil {
			a.req.OnHeld(a.held)
		}
		if !a.sleep(ctx, a.nap(ans, inbox)) {
			return answer{}, a.ended(ctx)
		}
		inbox = a.s.inbox.address()
	}
}

// nap is how long to sleep if no message comes: no longer than the place in
// line is safe; until the holder's lease may have run out, because a holder that
// died and a foreign client send nothing; and until that of the one ahead may,
// should it get the lock right now. Without an inbox, a lock that was passed to
// us must be found before it runs out again.
func (a *asking) nap(ans answer, inbox string) time.Duration {
	d := a.s.cfg.poll()
	if inbox == "" {
		d = min(d, max(a.req.TTL/2, time.Millisecond))
	}
	// The jitter keeps the processes in line from asking all at once.
	late := time.Millisecond + rand.N(20*time.Millisecond)
	for _, over := range []time.Duration{ans.ttl, ans.ahead} {
		if over >= 0 {
			d = min(d, over+late)
		}
	}
	return d
}

// sleep reports false when ctx has ended.
func (a *asking) sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-a.seat:
	case <-timer.C:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// ask puts the question once. After an error nothing is left behind, or soon
// will be.
func (a *asking) ask(ctx context.Context, getInLine bool, inbox string) (answer, error) {
	select {
	case <-a.seat: // this is the look it calls for
	default:
	}
	r := a.s.request(acquireScript, a.key, a.req.Owner,
		a.req.TTL.Milliseconds(), getInLine, a.s.cfg.waiterLease.Milliseconds(), a.claim().Milliseconds(), inbox, a.once)
	r.replicas = a.s.cfg.replicas
	queued := a.queued || getInLine
	a.queued = queued
	tidy := func() {
		if queued || r.wire.possible() > 0 {
			a.s.undo(a.key, a.req.Owner)
		}
	}
	if !a.s.await(ctx, tidy, r) {
		return answer{}, a.ended(ctx)
	}
	ans, err := a.read(r)
	if err == nil {
		return ans, nil
	}
	a.s.tasks.Go(tidy)
	if ctx.Err() != nil {
		return answer{}, a.ended(ctx)
	}
	return answer{}, failure("acquire", a.key, err)
}

// claim is how long the lock is kept for this request once it is its turn.
func (a *asking) claim() time.Duration { return min(a.s.cfg.claimTime(), a.req.TTL) }

// grace is how long an answer may take, once the wait is over, before the
// server counts as silent.
const grace = 500 * time.Millisecond

// ended leaves the line when the wait was cut short, and is the error for that.
// Whether there was a holder in the way or a server that has stopped answering
// shows in whether it answers now: the last time it did may be a while ago.
func (a *asking) ended(ctx context.Context) error {
	if a.told.IsZero() {
		return a.s.closedOr(&core.UnavailableError{Op: "acquire", Err: silence(ctx)})
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	r := a.s.request(releaseScript, a.key, a.req.Owner)
	again := func() {
		if r.err != nil {
			a.s.undo(a.key, a.req.Owner)
		}
	}
	switch {
	case !a.s.await(ctx, again, r):
		return a.s.closedOr(&core.UnavailableError{Op: "acquire", Err: silence(ctx)})
	case r.err != nil:
		a.s.tasks.Go(again)
		return a.s.closedOr(failure("acquire", a.key, r.err))
	}
	held := a.held
	held.RetryAfter = max(held.RetryAfter-time.Since(a.told), 0)
	return a.s.closedOr(&held)
}

// read takes in the reply of acquire.lua.
func (a *asking) read(r *request) (answer, error) {
	if r.err != nil {
		return answer{}, r.err
	}
	reply, err := r.reply.Slice()
	if err != nil {
		return answer{}, err
	}
	if len(reply) < 2 {
		return answer{}, fmt.Errorf("%w: reply %.100v", ErrCorrupt, reply)
	}
	text, _ := reply[1].(string)
	switch {
	case reply[0] == "granted":
		return a.granted(r, text)
	case reply[0] == "done":
		rec, err := decode(text)
		return answer{record: rec}, err
	case reply[0] == "held" && len(reply) == 4:
		ttl, ahead := millis(reply[2]), millis(reply[3])
		a.told = time.Now()
		a.held = core.HeldError{Key: a.key, Holder: holderOf(text), RetryAfter: max(ttl, 0)}
		return answer{held: true, ttl: ttl, ahead: ahead}, nil
	}
	return answer{}, fmt.Errorf("%w: reply %.100v", ErrCorrupt, reply)
}

func millis(reply any) time.Duration {
	n, _ := reply.(int64)
	return time.Duration(n) * time.Millisecond
}

func (a *asking) granted(r *request, token string) (answer, error) {
	if r.acks < int64(r.replicas) {
		return answer{}, fmt.Errorf("%w: %d of %d have the grant", ErrNoReplicas, r.acks, r.replicas)
	}
	n, err := strconv.ParseUint(token, 10, 64)
	if err != nil {
		return answer{}, fmt.Errorf("%w: token %.30q", ErrCorrupt, token)
	}
	// Every attempt gives a full TTL, so the one that was answered counts; the
	// moment of its writing is before the server's.
	return answer{grant: core.Grant{
		Owner: a.req.Owner, Claims: a.req.Claims, TTL: a.req.TTL, Token: n, Since: r.wire.last,
	}}, nil
}
