package redlock

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/redlock/internal/node"
	"github.com/keyturn/keyturn/store/redlock/internal/script"
)

const (
	// slack is by how much a token may be behind the nodes' clocks. A guess is behind them by what
	// an answer takes to come. After a loss of data the clocks alone make the tokens, and by then
	// more time has passed than this.
	slack = 100 * time.Millisecond
	// consent is how long a request for a contended key waits for its gate.
	consent = 5 * time.Millisecond
	// slowFor is how long a gate that took longer counts as down.
	slowFor = time.Second
)

// election is one round of votes for an owner.
//
// The owner proposes a token by the nodes' clocks. Each node that votes for it stores the proposed
// token, or a greater one if it has given that before. If a quorum has stored the same token, the
// lease is granted after this one round trip. Otherwise the greatest token is sealed in a second
// one. Any later quorum has a node in common with this one, so its token is greater.
type election struct {
	s          *Store
	req        *driver.Request
	round      string
	key        script.Key
	hash       uint32
	gate       int // the node that is asked first, or -1
	ticketNode int // the node that has the owner's ticket, or -1

	mu       sync.Mutex
	phase    phase
	ballots  ballots
	token    uint64 // when sealing or granted
	reserved uint64 // how many tokens behind it are reserved
	asked    int    // how many nodes were asked
	sealing  int    // seals under way
	sealed   int
	opened   chan struct{} // closed when the gate has answered; nil without a gate
	over     func()        // called when all nodes have answered, and have been told the token
	settled  chan struct{} // closed when there is nothing to wait for in this phase
}

type phase int

const (
	voting phase = iota
	sealing
	granted
	failed
)

// run asks all nodes for their votes, and waits for the outcome. If it did not win, the votes have to
// be taken back. If ctx ended first, ok is false.
func (e *election) run(ctx context.Context, args []any, ticket string) (r result, ok bool) {
	s := e.s
	guess := s.now()
	args[2], args[3] = guess, e.req.HandOffs
	if most := uint64(driver.MaxLead / time.Microsecond); e.req.HandOffs > most {
		args[3] = most
	}
	since := time.Now()
	until := since.Add(s.roundTimeout())
	keys := []string{e.key.Lock, e.key.Counter, s.names.Mark(), e.key.Turn, e.key.Line}
	askNode := func(i int) {
		e.mu.Lock()
		e.asked++
		e.mu.Unlock()
		own := args
		if i == e.ticketNode {
			own = slices.Clone(args)
			own[5] = ticket
		}
		s.nodes[i].Send(e.hash, &node.Call{
			Script: script.Vote, Keys: keys, Args: own, RunID: true, Until: until,
			Done: func(reply any, err error) { e.voted(i, reply, err) },
		})
	}
	if e.gate >= 0 {
		askNode(e.gate)
		if !e.passes(ctx) {
			return e.giveUp(), ctx.Err() == nil
		}
	}
	for i := range s.nodes {
		if i != e.gate {
			askNode(i)
		}
	}
	timer := time.NewTimer(s.cfg.nodeTimeout)
	defer timer.Stop()
	if !e.wait(ctx, timer.C) {
		return e.giveUp(), false
	}
	if e.undisputed() {
		timer.Reset(s.roundTimeout() - s.cfg.nodeTimeout)
		if !e.wait(ctx, timer.C) {
			return e.giveUp(), false
		}
	}
	e.mu.Lock()
	if e.ballots.votes() < s.cfg.quorum {
		r = e.lost()
		e.mu.Unlock()
		return r, true
	}
	needed := e.agree()
	e.mu.Unlock()
	if needed {
		since = time.Now()
		timer.Reset(s.roundTimeout())
		if !e.wait(ctx, timer.C) {
			return e.giveUp(), false
		}
	}
	return e.result(since), true
}

// wait waits until the phase is settled, or the time is over. It returns false if ctx ended first.
func (e *election) wait(ctx context.Context, over <-chan time.Time) bool {
	e.mu.Lock()
	settled := e.settled
	e.mu.Unlock()
	select {
	case <-settled:
		return true
	case <-over:
		return true
	case <-ctx.Done():
		return false
	}
}

// undisputed reports whether the voting is not settled, and no node has refused. Another round
// would only ask the nodes that are missing once more.
func (e *election) undisputed() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	select {
	case <-e.settled:
		return false
	default:
	}
	return !slices.ContainsFunc(e.ballots, ballot.no)
}

// passes waits for the gate's answer, and reports whether the other nodes are to be asked. A gate
// that does not answer in time holds nobody up, and is not asked first for a while.
func (e *election) passes(ctx context.Context) bool {
	timer := time.NewTimer(consent)
	defer timer.Stop()
	select {
	case <-e.opened:
	case <-timer.C:
		e.s.nodes[e.gate].Slow(slowFor)
	case <-ctx.Done():
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return !e.ballots[e.gate].no()
}

// voted notes a node's answer, which may come long after the election.
func (e *election) voted(i int, reply any, err error) {
	var read script.Ballot
	if err == nil {
		read, err = script.ReadBallot(reply)
	}
	if err == nil { // without the mutex: it may tell the engine, and so the program's hooks
		e.s.nodes[i].Tell(read.Now)
		e.s.health.voted(e.s, i, read)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	b := &e.ballots[i]
	b.here, b.Ballot, b.err = true, read, err
	if i == e.gate {
		close(e.opened)
	}
	defer e.finish()
	switch {
	case e.phase == voting:
		e.look()
	case b.err != nil || b.Outcome != script.Yes:
	case e.phase == sealing, e.phase == granted && b.Token != e.token:
		// The vote must have the lease's token. Otherwise renewals would not find it.
		e.seal(i)
	}
}

// look settles the voting if it is clear how it ends. The caller has the mutex.
func (e *election) look() {
	n, q := len(e.s.nodes), e.s.cfg.quorum
	if e.ballots.answered() == n || e.ballots.votes() >= q && !e.ballots.unsure(q) {
		e.settle()
	} else if _, most := e.ballots.rival(); most > n-q {
		e.settle()
	}
}

func (e *election) settle() {
	select {
	case <-e.settled:
	default:
		close(e.settled)
	}
}
