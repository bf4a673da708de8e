package redlock

import (
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/internal/onredis"
	"github.com/keyturn/keyturn/store/redlock/internal/script"
)

// result is how an election ended.
type result struct {
	won     bool
	grant   driver.Grant
	queued  bool // its ticket is still in line
	holder  onredis.Value
	held    bool          // a holder keeps the owner from a quorum, for certain
	stopped bool          // the gate keeps it out: for a holder, or because it is another waiter's turn
	split   bool          // nobody may have won
	left    time.Duration // until there may be room
	now     int64         // µs of the clock that left and holder are from
	ahead   int
	errs    []error // of the nodes
}

// result ends an election that had a quorum of votes.
func (e *election) result(since time.Time) result {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.phase == sealing {
		if e.sealed < e.s.cfg.quorum {
			return e.lost()
		}
		e.phase = granted
	}
	defer e.finish()
	r := result{won: true, grant: driver.Grant{
		Owner: e.req.Owner, Claims: e.req.Claims, TTL: e.req.TTL, Token: e.token, HandOffs: e.reserved, Since: since,
	}}
	r.queued = e.ticketNode >= 0 && !e.ballots[e.ticketNode].yes()
	for i := range e.ballots {
		b := &e.ballots[i]
		if b.yes() {
			r.grant.Contended = r.grant.Contended || b.Awaited
		}
	}
	return r
}

// giveUp ends an election that nobody waits for any more.
func (e *election) giveUp() result {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.lost()
}

// lost ends an election that the owner did not win. The caller has the mutex.
func (e *election) lost() result {
	e.phase = failed
	defer e.finish()
	n, q := len(e.s.nodes), e.s.cfg.quorum
	r := result{errs: make([]error, n)}
	answers := 0
	for i := range e.ballots {
		b := &e.ballots[i]
		switch {
		case !b.here:
			r.errs[i] = errSilent
		case b.err != nil:
			r.errs[i] = b.err
		case b.Outcome == script.Abstain:
			r.errs[i] = &AbstainError{Left: b.Left}
		default:
			answers++
		}
		if b.no() {
			r.ahead = max(r.ahead, b.Ahead)
		}
	}
	rival, most := e.ballots.rival()
	if rival != nil {
		r.holder, r.left, r.now = script.ParseValue(rival.Holder), rival.Left, rival.Now
	}
	r.stopped = e.gate >= 0 && e.ballots[e.gate].no()
	r.held = most > n-q
	r.split = !r.held && !r.stopped && answers >= q
	return r
}

// finish ends the election for good. The caller has the mutex.
func (e *election) finish() {
	if e.phase != voting && e.sealing == 0 && e.ballots.answered() == e.asked && e.over != nil {
		e.over()
		e.over = nil
	}
}
