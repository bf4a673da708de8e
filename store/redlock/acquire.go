package redlock

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/waitloop"
	"github.com/keyturn/keyturn/store/internal/onredis"
	"github.com/keyturn/keyturn/store/redlock/internal/script"
)

const (
	// attempts is how many rounds a question may take: after a split vote, or without a quorum of
	// answers. Then a request without Wait is refused.
	attempts = 4
	// patience is for how long it takes further rounds if nodes are silent instead of down: a busy
	// network must not look like an outage.
	patience = 2 * time.Second
	// A loser pauses for a random time between half of these and one and a half. It doubles from
	// the first to the last.
	firstPause = 10 * time.Millisecond
	lastPause  = 400 * time.Millisecond
	// gateless is which of the rounds asks all nodes at once although the key is contended.
	gateless = 4
	// look is how long a waiter sleeps at most. Messages get lost, and a dead process may have left
	// votes that keep nobody out.
	look = 500 * time.Millisecond
)

// acquisition is one call of Acquire. It implements [waitloop.Request].
type acquisition struct {
	s     *Store
	req   driver.Request
	key   script.Key
	hash  uint32
	args  []any // of a vote
	state waitloop.State
	open  atomic.Int32 // rounds under way, and the call itself

	waiting <-chan struct{} // messages, once it waits
	gate    int             // where it stands in line
	called  bool            // a message has said that it is its turn
	front   bool            // it was called and lost, so it stands in front of the others
	sure    bool            // the gate alone has refused it, and it does not wait
	rounds  int             // number of rounds so far
	round   string          // the name of the last one
	losses  int             // rounds that it lost although nobody may have won
	same    onredis.Value   // the holder that was named last
	since   time.Time       // when it was named first
}

// Acquire implements [driver.Store].
func (s *Store) Acquire(ctx context.Context, req driver.Request) (driver.Grant, error) {
	if err := s.check(req.Owner, req.Claims, req.TTL); err != nil {
		return driver.Grant{}, err
	}
	// A node that was started anew abstains for the longest TTL, so no lease may be longer.
	if req.TTL > s.cfg.maxTTL {
		return driver.Grant{}, &driver.OptionError{Option: "TTL", Value: req.TTL, Want: "at most " + s.cfg.maxTTL.String() + ", see WithMaxTTL"}
	}
	if err := s.calls.Enter(); err != nil {
		return driver.Grant{}, err
	}
	defer s.calls.Leave()
	key := req.Claims[0].Key
	if !s.owners.take(req.Owner, ctx.Done()) {
		return driver.Grant{}, s.noQuorum("acquire", key, nil)
	}
	a := &acquisition{s: s, req: req, key: s.names.Of(key), hash: hash(key)}
	longest := s.cfg.maxTTL.Milliseconds()
	if s.cfg.persistent {
		longest = 0
	}
	a.args = []any{
		req.Owner, req.TTL.Milliseconds(), 0, 0, onredis.Notes(req.TTL, req.Rule, req.Trace), "", false,
		counterTTL.Milliseconds(), longest, "",
	}
	a.open.Store(1)
	defer a.over()
	defer a.leave()
	return waitloop.Run(ctx, waitloop.Terms{Wait: req.Wait, OnHeld: req.OnHeld, Life: s.ctx}, a)
}

// over ends a round, or the call. A repeated request has to wait for all of them: it must see the
// token that this one has told the nodes.
func (a *acquisition) over() {
	if a.open.Add(-1) == 0 {
		a.s.owners.leave(a.req.Owner)
	}
}

func (a *acquisition) leave() {
	if a.waiting != nil {
		a.s.inbox.Leave(a.req.Owner)
	}
}

// Ask implements [waitloop.Request]. It takes as many rounds as it needs to learn whether a holder
// is in the way.
func (a *acquisition) Ask(ctx context.Context) (driver.Grant, *waitloop.State, error) {
	began := time.Now()
	for attempt := 1; ; attempt++ {
		r, ok := a.elect(ctx)
		if r.won {
			a.won(r)
			return r.grant, nil, nil
		}
		a.s.undo(a.req.Owner, "", a.key, a.hash, a.req.TTL, "", a.round)
		if !ok || ctx.Err() != nil {
			return driver.Grant{}, nil, &waitloop.Unanswered{Err: a.s.noQuorum("acquire", a.req.Claims[0].Key, r.errs)}
		}
		if r.stopped && !a.req.Wait && r.holder.Owner != "" {
			a.sure = true // a refusal needs more than one node's word
			continue
		}
		if r.held || r.stopped || r.split && (a.req.Wait || attempt >= attempts) {
			return driver.Grant{}, a.lost(r), nil
		}
		most := len(a.s.nodes) - a.s.cfg.quorum
		hopeless := count(r.errs, refuses) > most || attempt >= attempts && count(r.errs, down) > most
		if hopeless || attempt >= attempts && time.Since(began) > patience {
			return driver.Grant{}, nil, a.s.noQuorum("acquire", a.req.Claims[0].Key, r.errs)
		}
		a.losses++
		if !waitloop.Sleep(ctx, a.pause()) {
			return driver.Grant{}, nil, &waitloop.Unanswered{Err: a.s.noQuorum("acquire", a.req.Claims[0].Key, r.errs)}
		}
	}
}

// elect is one round.
func (a *acquisition) elect(ctx context.Context) (result, bool) {
	a.round = strconv.FormatInt(a.s.rounds.Add(1), 10)
	e := &election{
		s: a.s, req: &a.req, round: a.round, key: a.key, hash: a.hash, gate: -1, ticketNode: -1,
		ballots: make([]ballot, len(a.s.nodes)), settled: make(chan struct{}),
	}
	ticket := ""
	if a.waiting != nil {
		a.gate = a.s.gate(a.hash)
		if a.s.inbox.Hears(a.gate) {
			ticket, e.ticketNode = a.s.inbox.Ticket(a.req.Owner), a.gate
		}
		a.drain()
	}
	a.open.Add(1)
	e.over = a.over
	args := slices.Clone(a.args) // nodes may still be told those of an earlier round
	args[6] = a.called || a.front
	// The gate keeps back all except one of those who want a contended key. Otherwise they would
	// split the votes, also against the waiter whose turn it is. But a dead process may have left a
	// vote at the gate and nowhere else, so the gate alone has not the last word.
	if !a.called && !a.sure && a.rounds%gateless != gateless-1 && a.s.crowds.has(a.req.Claims[0].Key) {
		e.gate, e.opened = a.s.gate(a.hash), make(chan struct{})
	}
	a.rounds++
	args[9] = a.round
	r, ok := e.run(ctx, args, ticket)
	a.front = a.called && !r.won
	a.called = false
	return r, ok
}

// drain drops a message that came before the question that it asks for.
func (a *acquisition) drain() {
	select {
	case <-a.waiting:
		a.called = true
	default:
	}
}

func (a *acquisition) won(r result) {
	if r.grant.Contended {
		a.s.crowds.note(a.req.Claims[0].Key)
	}
	if r.queued { // or a later release would call it
		a.s.undo(a.req.Owner, nobody, a.key, a.hash, a.req.TTL, a.s.inbox.Ticket(a.req.Owner), a.round)
	}
}

// lost notes who is in the way.
func (a *acquisition) lost(r result) *waitloop.State {
	now := time.Now()
	if a.same != r.holder || a.since.IsZero() {
		a.same, a.since = r.holder, now
	}
	held := driver.HeldError{
		Key: a.req.Claims[0].Key, Holder: r.holder.Owner, Trace: r.holder.Trace, RetryAfter: max(r.left, 0), Ahead: r.ahead,
		HeldFor: r.holder.HeldFor(r.now / 1000),
	}
	changes := [2]time.Duration{-1, -1}
	if r.held {
		a.losses = 0
		changes[0] = r.left
	} else {
		a.losses++
		changes[1] = a.pause()
	}
	a.s.crowds.note(held.Key)
	a.state = waitloop.State{Held: held, At: now, Within: look, Changes: changes}
	return &a.state
}

// pause returns how long to wait after a round that nobody may have won. The random part is as long
// as the pause, because the same processes would split the vote again otherwise.
func (a *acquisition) pause() time.Duration {
	d := min(firstPause<<min(a.losses, 10), lastPause)
	return d/2 + rand.N(d)
}

// Enter implements [waitloop.Request]. The question that follows gets in line at the gate.
func (a *acquisition) Enter(ctx context.Context) (queued bool) {
	a.waiting = a.s.inbox.Join(a.req.Owner)
	a.s.inbox.Connect(ctx, a.s.gate(a.hash), a.s.cfg.nodeTimeout)
	return false
}

// Messages implements [waitloop.Request].
func (a *acquisition) Messages() <-chan struct{} { return a.waiting }

// Accept implements [waitloop.Request]. A message is only a hint.
func (a *acquisition) Accept(struct{}) (driver.Grant, bool) {
	a.called = true
	return driver.Grant{}, false
}

// Poll implements [waitloop.Request].
func (a *acquisition) Poll() (every time.Duration, slept func()) {
	if !a.s.inbox.Hears(a.gate) {
		every = min(firstPause<<min(a.losses, 10), lastPause)
		a.losses++
	}
	return every, func() {}
}

// Withdraw implements [waitloop.Request].
func (a *acquisition) Withdraw(ctx context.Context) error {
	ended := a.s.release(ctx, a.req.Owner, "", a.req.Claims[0].Key, a.req.TTL, a.s.inbox.Ticket(a.req.Owner), a.round)
	if answered(ended) < a.s.cfg.quorum {
		return a.s.noQuorum("acquire", a.req.Claims[0].Key, errsOf(ended))
	}
	return nil
}
