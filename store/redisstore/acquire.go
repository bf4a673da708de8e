package redisstore

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/redisstore/internal/inbox"
	"github.com/keyturn/keyturn/store/redisstore/internal/script"
	"github.com/keyturn/keyturn/store/redisstore/internal/send"
)

// Acquire implements [driver.Store].
func (s *Store) Acquire(ctx context.Context, req driver.Request) (driver.Grant, error) {
	g, _, err := s.acquire(ctx, req, false)
	return g, err
}

// acquisition is one Acquire or Begin under way.
type acquisition struct {
	s      *Store
	req    driver.Request
	groups [][]driver.Claim // a script each
	once   bool             // a record will do as well
	notes  string

	waiter *inbox.Waiter // nil: it has not been in line
	number uint64        // of the last question; 0: no message is an answer to it
	last   send.Request  // that question
	queued bool          // the server may have put it in line
	simple bool          // it was answered before it got there
	asked  int           // how many of the groups have been asked for so far
	stuck  []int         // by group: the claim it was refused at, counted from 1
	began  time.Time     // when it asked first
	told   time.Time     // when the server last said that the key is held
	held   driver.HeldError

	inbox     string        // that the last question named
	holder    script.Value  // as the server last said
	sameSince time.Time     // when it first said that
	every     time.Duration // between the looks of a waiter that is not told; 0: it is

	alone struct { // groups and stuck, of one script
		group [1][]driver.Claim
		stuck [1]int
	}
}

// answer is what the server said. Of grant, record and held one is set.
type answer struct {
	grant  driver.Grant
	record *driver.Record
	held   bool
	ttl    time.Duration // of the first holder that may be gone; below 0: it has none
	ahead  time.Duration // claim time of the one ahead in line; below 0: nobody
}

func (s *Store) acquire(ctx context.Context, req driver.Request, once bool) (driver.Grant, *driver.Record, error) {
	if err := check(req.Owner, req.Claims, req.TTL); err != nil {
		return driver.Grant{}, nil, err
	}
	if once {
		if err := checkOnce(req.Claims); err != nil {
			return driver.Grant{}, nil, err
		}
	}
	if err := s.enter(); err != nil {
		return driver.Grant{}, nil, err
	}
	defer s.leave()
	a := s.asks(req, once)
	defer a.end()
	ans, err := a.run(ctx)
	a.simple = err == nil && !a.queued
	return ans.grant, ans.record, err
}

// asks begins one. What most need is in it, and takes no allocations of its own.
func (s *Store) asks(req driver.Request, once bool) *acquisition {
	a := acquisitions.Get().(*acquisition)
	a.s, a.req, a.once, a.notes, a.began = s, req, once, script.Notes(req.TTL, req.Rule, req.Trace), time.Now()
	if s.keys.Together(req.Claims) {
		a.alone.group[0] = req.Claims
		a.groups, a.stuck = a.alone.group[:], a.alone.stuck[:]
	} else {
		a.groups = s.keys.Groups(req.Claims)
		a.stuck = make([]int, len(a.groups))
	}
	return a
}

// acquisitions are kept for others, because what most service calls ask for is theirs at
// once, and the collector would else have more to do than they.
var acquisitions = sync.Pool{New: func() any { return new(acquisition) }}

func (a *acquisition) end() {
	if a.waiter != nil {
		a.s.inbox.Leave(a.req.Owner)
	}
	if a.simple { // no message, no goroutine that tidies up, knows of it
		*a = acquisition{}
		acquisitions.Put(a)
	}
}

// run asks until the answer is final.
//
// The first question of a process that does not know yet whether it can have an inbox
// is put without getting in line: whoever is there without one is passed over at first.
func (a *acquisition) run(ctx context.Context) (answer, error) {
	getInLine := a.req.Wait && a.s.inbox.Known()
	if getInLine {
		a.join()
	}
	ans, err := a.askAll(ctx, getInLine)
	switch {
	case err != nil:
		return answer{}, err
	case !ans.held:
		return ans, nil
	case !a.req.Wait:
		return answer{}, &a.held
	}
	// The closing of the store ends a wait. Most requests have none, so it is
	// watched only from here on.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(a.s.ctx, cancel)()
	a.s.inbox.Connect(ctx, a.s.cfg.poll())
	if !getInLine {
		a.join()
		if ans, err = a.askAll(ctx, true); err != nil || !ans.held {
			return ans, err
		}
	}
	return a.wait(ctx, ans)
}

// join has messages delivered to this request until its end.
func (a *acquisition) join() { a.waiter = a.s.inbox.Join(a.req.Owner, a.req.Claims[0].Key) }

// wait sleeps and asks, in turn, until the answer is final, or comes by itself.
func (a *acquisition) wait(ctx context.Context, ans answer) (answer, error) {
	for {
		if a.req.OnHeld != nil {
			a.req.OnHeld(a.held)
		}
		m, awake := a.sleep(ctx, ans)
		if !awake {
			return answer{}, a.ended(ctx)
		}
		if ans, ok := a.passed(m); ok {
			return ans, nil
		}
		var err error
		if ans, err = a.askAll(ctx, true); err != nil || !ans.held {
			return ans, err
		}
	}
}

// nap is how long to sleep if no message comes: no longer than the place in
// line is safe; until a holder's lease may have run out, because a holder that
// died and a foreign client send nothing, and the others may have left by then;
// and until that of the one ahead may, should it get the lock right now. Without an
// inbox, a lock that was passed to us must be found before it runs out again; and
// what a set has already, it has to keep.
func (a *acquisition) nap(ans answer) time.Duration {
	d := a.s.cfg.poll()
	if a.inbox == "" {
		d = min(d, max(a.req.TTL/2, time.Millisecond))
	}
	if a.every > 0 {
		d = min(d, inbox.Unevenly(a.every))
	}
	if len(a.req.Claims) > 1 {
		d = min(d, max(a.req.TTL/3, time.Millisecond))
	}
	// The jitter keeps the processes in line from acquisition all at once.
	late := time.Millisecond + rand.N(20*time.Millisecond)
	for _, over := range []time.Duration{ans.ttl, ans.ahead} {
		if over >= 0 {
			d = min(d, over+late)
		}
	}
	return d
}

// sleep reports false when ctx has ended.
func (a *acquisition) sleep(ctx context.Context, ans answer) (m script.Message, awake bool) {
	var looks int64
	looks, a.every = a.s.pacer.Enter(inbox.Sight{
		Foreign: a.holder.Foreign(), Untold: a.inbox == "" || a.holder.Quiet, Head: a.held.Ahead == 0, Since: a.sameSince,
	})
	defer a.s.pacer.Leave(looks)
	timer := time.NewTimer(a.nap(ans))
	defer timer.Stop()
	select {
	case m = <-a.waiter.Messages():
	case <-timer.C:
	case <-ctx.Done():
	}
	return m, ctx.Err() == nil
}

// ask puts the question about one group once. After an error nothing is left
// behind, or soon will be.
func (a *acquisition) ask(ctx context.Context, group int, getInLine bool) (answer, error) {
	if a.waiter != nil {
		a.waiter.Clear() // this is the look it calls for
	}
	a.number, a.inbox = 0, a.s.inbox.Address()
	if getInLine && a.inbox != "" && a.counted() {
		a.number = a.s.questions.Add(1)
	}
	a.question(group, getInLine)
	a.queued = a.queued || getInLine || group > 0
	a.asked = max(a.asked, group+1)
	r := &a.last
	if !a.s.sender.Await(ctx, a, r.Alone()) {
		return answer{}, a.ended(ctx)
	}
	ans, err := a.read(r, group)
	if err == nil {
		return ans, nil
	}
	if own := (*driver.DeadlockError)(nil); errors.As(err, &own) {
		return answer{}, err // what it has, it had before
	}
	a.s.tasks.Go(a.AnsweredLate)
	if ctx.Err() != nil {
		return answer{}, a.ended(ctx)
	}
	return answer{}, failure("acquire", a.groups[group][0].Key, err)
}

// question makes the last question the one about a group.
func (a *acquisition) question(group int, getInLine bool) {
	cfg := &a.s.cfg
	a.last = send.Request{Replicas: cfg.replicas}
	a.s.keys.Acquire(&a.last.Call, script.Acquire{
		Owner: a.req.Owner, Claims: a.groups[group], TTL: a.req.TTL, Notes: a.remarks(), Once: a.once, Apart: cfg.replicas > 0,
		Wait: getInLine, WaiterLease: cfg.waiterLease, ClaimTime: a.claim(), Waited: time.Since(a.began),
		Stuck: a.stuck[group], Question: a.number, Inbox: a.inbox,
	})
}

// remarks are what goes with the lease.
func (a *acquisition) remarks() string {
	if a.inbox == "" && a.s.inbox.Known() {
		return script.Quietly(a.notes)
	}
	return a.notes
}

// claim is how long the lock is kept for this request once it is its turn. Without an
// inbox the request finds that out when it looks.
func (a *acquisition) claim() time.Duration {
	d := a.s.cfg.claimTime()
	if a.inbox == "" {
		d = min(d, max(inbox.ShortClaim, 2*a.every))
	}
	return min(d, a.req.TTL).Truncate(time.Millisecond)
}
