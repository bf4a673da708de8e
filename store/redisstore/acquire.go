package redisstore

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/waitloop"
	"github.com/keyturn/keyturn/store/internal/onredis"
	"github.com/keyturn/keyturn/store/redisstore/internal/inbox"
	"github.com/keyturn/keyturn/store/redisstore/internal/script"
	"github.com/keyturn/keyturn/store/redisstore/internal/send"
)

// Acquire implements [driver.Store].
func (s *Store) Acquire(ctx context.Context, req driver.Request) (driver.Grant, error) {
	g, _, err := s.acquire(ctx, req, false)
	return g, err
}

// acquisition is one call of Acquire or Begin.
type acquisition struct {
	s      *Store
	req    driver.Request
	groups [][]driver.Claim // the claims of each script call
	once   bool             // a record serves as well as the lease
	notes  string

	waiter *inbox.Waiter // nil: it has not been in the queue
	number uint64        // of the last question; 0: a message cannot answer it
	last   send.Request  // the last question
	queued bool          // the server may have put it in the queue
	simple bool          // it was answered without the queue
	resent bool          // a copy of an answered question may still be under way
	told   bool          // a message asks for the next question
	asked  int           // number of groups asked for so far
	stuck  []int         // for each group: the claim at which it was refused, counted from 1
	over   chan struct{} // of one that waits: closed when a question that nobody waits for is over
	began  time.Time     // when the first question was asked
	state  waitloop.State

	inbox      string        // the inbox that the last question named
	holder     onredis.Value // the holder that the server last named
	holderEnds int64         // and the end of its lease when the server first named it, in ms of the server's clock
	sameSince  time.Time     // when that was
	pollPause  time.Duration // between the polls of a waiter without messages; 0: messages arrive

	alone struct { // memory for the groups and stuck of a single script call
		group [1][]driver.Claim
		stuck [1]int
	}
}

// answer is the server's answer. One of grant, record and held is set.
type answer struct {
	grant  driver.Grant
	record *driver.Record
	held   bool // and the state of the acquisition says how
}

func (s *Store) acquire(ctx context.Context, req driver.Request, once bool) (driver.Grant, *driver.Record, error) {
	if err := driver.CheckLease(req.Owner, req.Claims, req.TTL); err != nil {
		return driver.Grant{}, nil, err
	}
	if once {
		if err := driver.CheckOnce(req.Claims); err != nil {
			return driver.Grant{}, nil, err
		}
	}
	if err := s.calls.Enter(); err != nil {
		return driver.Grant{}, nil, err
	}
	defer s.calls.Leave()
	a := s.asks(req, once)
	defer a.end()
	ans, err := waitloop.Run(ctx, waitloop.Terms{Wait: req.Wait, OnHeld: req.OnHeld, Life: s.ctx}, a)
	a.simple = err == nil && !a.queued
	return ans.grant, ans.record, err
}

// asks begins an acquisition. It takes no further allocations for what most of them need.
func (s *Store) asks(req driver.Request, once bool) *acquisition {
	a := acquisitions.Get().(*acquisition)
	a.s, a.req, a.once, a.notes, a.began = s, req, once, onredis.Notes(req.TTL, req.Rule, req.Trace), time.Now()
	if s.keys.InOneScript(req.Claims) {
		a.alone.group[0] = req.Claims
		a.groups, a.stuck = a.alone.group[:], a.alone.stuck[:]
	} else {
		a.groups = s.keys.Groups(req.Claims)
		a.stuck = make([]int, len(a.groups))
	}
	return a
}

// acquisitions are reused. Most calls get their lease at once, and the garbage collector would
// otherwise work harder than the calls.
var acquisitions = sync.Pool{New: func() any { return new(acquisition) }}

func (a *acquisition) end() {
	if a.waiter != nil {
		a.s.inbox.Leave(a.req.Owner)
	}
	if a.simple { // no message and no goroutine that tidies up refers to it
		*a = acquisition{}
		acquisitions.Put(a)
	}
}

// Ask implements [waitloop.Request].
//
// If the process does not know yet whether it can have an inbox, the first question does not
// join the queue: a waiter without an inbox is passed over at first.
func (a *acquisition) Ask(ctx context.Context) (answer, *waitloop.State, error) {
	if a.waiter == nil && a.req.Wait && a.s.inbox.Known() {
		a.join()
	}
	var ans answer
	var err error
	if len(a.groups) == 1 { // usually one script call grants the whole set or says what is in the way
		ans, err = a.ask(ctx, 0, a.waiter != nil)
	} else {
		ans, err = a.askAll(ctx, a.waiter != nil)
	}
	if !ans.held {
		return ans, nil, err
	}
	a.state.Within = a.within()
	return ans, &a.state, nil
}

// Enter implements [waitloop.Request].
func (a *acquisition) Enter(ctx context.Context) (queued bool) {
	a.over = make(chan struct{})
	a.s.inbox.Connect(ctx, a.s.cfg.longestSleep())
	if a.waiter != nil {
		return true
	}
	a.join()
	return false
}

// join registers this request for messages until its end.
func (a *acquisition) join() { a.waiter = a.s.inbox.Join(a.req.Owner, a.req.Claims[0].Key) }

// Messages implements [waitloop.Request].
func (a *acquisition) Messages() <-chan script.Message { return a.waiter.Messages() }

// Accept implements [waitloop.Request].
func (a *acquisition) Accept(m script.Message) (answer, bool) {
	ans, granted := a.passed(m)
	a.told = !granted
	return ans, granted
}

// Poll implements [waitloop.Request]. A lock without a holder is in the way while it is left free for
// foreign clients: see turns.lua.
func (a *acquisition) Poll() (pause time.Duration, slept func()) {
	var rate int64
	rate, a.pollPause = a.s.pollers.Enter(inbox.View{
		Foreign: a.holder.Foreign() || a.holder == onredis.Value{}, NoMessage: a.inbox == "" || a.holder.Quiet, Head: a.state.Held.Ahead == 0, Since: a.sameSince,
	})
	return a.pollPause, func() { a.s.pollers.Leave(rate) }
}

// within is how long the request may sleep. It is the shortest of these times:
//
//   - for how long the place in the queue is safe;
//   - without an inbox, until a lock that was passed to this waiter would run out unnoticed;
//   - for a set, until what it holds so far has to be extended.
func (a *acquisition) within() time.Duration {
	d := a.s.cfg.longestSleep()
	if a.inbox == "" {
		d = min(d, max(a.req.TTL/2, time.Millisecond))
	}
	if len(a.req.Claims) > 1 {
		d = min(d, max(a.req.TTL/3, time.Millisecond))
	}
	return d
}

// ask asks once about one group. After an error nothing is left behind, or soon will not be.
func (a *acquisition) ask(ctx context.Context, group int, getInLine bool) (answer, error) {
	if a.waiter != nil {
		a.waiter.Clear() // the question below is the poll that such a message asks for
	}
	a.number, a.inbox = 0, a.address()
	if getInLine && a.inbox != "" && a.counted() {
		a.number = a.s.questions.Add(1)
	}
	a.question(group, getInLine)
	a.queued = a.queued || getInLine || group > 0
	a.asked = max(a.asked, group+1)
	r := &a.last
	if !a.s.sender.Await(ctx, a, r.Alone()) {
		return answer{}, a.unanswered(ctx)
	}
	a.resent = a.resent || r.Attempts.Possible() > 1
	ans, err := a.read(r, group)
	if err == nil {
		return ans, nil
	}
	if own := (*driver.DeadlockError)(nil); errors.As(err, &own) {
		return answer{}, err // nothing to undo: the owner held it before
	}
	a.s.calls.Go(a.AnsweredLate)
	if ctx.Err() != nil {
		return answer{}, a.unanswered(ctx)
	}
	return answer{}, failure("acquire", a.groups[group][0].Key, err)
}

// question makes the question about a group the last one.
func (a *acquisition) question(group int, getInLine bool) {
	cfg := &a.s.cfg
	// A set that waits also keeps what it has by its questions, so they are as urgent as renewals.
	slept := a.queued && !a.told && len(a.req.Claims) == 1 && time.Since(a.state.At) >= a.state.Within
	a.told = false
	a.last = send.Request{Replicas: cfg.replicas, Patient: slept}
	a.s.keys.Acquire(&a.last.Call, script.Acquire{
		Owner: a.req.Owner, Claims: a.groups[group], TTL: a.req.TTL, Notes: a.remarks(), Once: a.once,
		Wait: getInLine, WaiterLease: a.s.waiterLease(), ClaimTime: a.claim(), Waited: time.Since(a.began),
		Stuck: a.stuck[group], Question: a.number, Inbox: a.inbox, HandOffs: a.req.HandOffs, Part: len(a.groups) > 1,
	})
}

// waiterLease is for how long a waiter keeps its place from now on. If signs of life are late, because
// this process has too many waiters for its server, they need more time.
func (s *Store) waiterLease() time.Duration {
	late := time.Duration(s.signsLate.Load()).Truncate(time.Millisecond)
	return min(s.cfg.waiterLease+2*late, maxWaiterLease)
}

// address is the inbox of this process for the next question; "": it has none.
func (a *acquisition) address() string {
	if a.lingers() {
		return a.s.inbox.Attend(a.req.Claims[0].Key)
	}
	return a.s.inbox.Address()
}

// lingers reports whether the engine may keep the lease after its release.
func (a *acquisition) lingers() bool { return a.req.Linger && !a.once && len(a.req.Claims) == 1 }

// remarks are the notes that are stored with the lease.
func (a *acquisition) remarks() string {
	if a.inbox != "" && a.lingers() {
		return onredis.Lingering(a.notes, a.inbox)
	}
	if a.inbox == "" && a.s.inbox.Known() {
		return onredis.Quietly(a.notes)
	}
	return a.notes
}

// claim is how long the lock is kept for this request once it is its turn. Without an inbox the
// request learns of its turn only when it polls.
func (a *acquisition) claim() time.Duration {
	d := a.s.cfg.claimTime()
	if a.inbox == "" {
		d = min(d, max(inbox.ShortClaim, 2*a.pollPause))
	}
	return min(d, a.req.TTL).Truncate(time.Millisecond)
}
