package redlock

import (
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/redlock/internal/node"
	"github.com/keyturn/keyturn/store/redlock/internal/script"
)

// agree finds the token of the lease, and reports whether it has to be sealed. The caller has the
// mutex.
func (e *election) agree() (needed bool) {
	votes, again, reserved := make(map[uint64]int), make(map[uint64]bool), make(map[uint64]uint64)
	clocks := make([]int64, 0, 16)
	var most uint64
	for i := range e.ballots {
		b := &e.ballots[i]
		if !b.yes() {
			continue
		}
		votes[b.Token]++
		again[b.Token] = again[b.Token] || b.Again
		if least, known := reserved[b.Token]; !known || b.Reserved < least { // each node reserves what its clock allows
			reserved[b.Token] = b.Reserved
		}
		clocks = append(clocks, b.Now)
		most = max(most, b.Token)
	}
	now := middle(clocks)
	for token, n := range votes {
		// An owner that asks again gets the token that a quorum shows, however old it is.
		if n >= e.s.cfg.quorum && (again[token] || int64(token) > now-slack.Microseconds()) {
			e.phase, e.token, e.reserved = granted, token, reserved[token]
			for i := range e.ballots {
				if b := &e.ballots[i]; b.yes() && b.Token != token {
					e.seal(i)
				}
			}
			return false
		}
	}
	e.phase, e.settled = sealing, make(chan struct{})
	e.token = max(most, uint64(now))
	// The tokens behind it must not run ahead of the clock, see driver.MaxLead.
	if room := now + driver.MaxLead.Microseconds() - int64(e.token); room > 0 {
		e.reserved = min(e.req.HandOffs, uint64(room))
	}
	for i := range e.ballots {
		if e.ballots[i].yes() {
			e.seal(i)
		}
	}
	return true
}

// seal writes the lease's token into the vote of node i. The caller has the mutex.
func (e *election) seal(i int) {
	e.sealing++
	e.s.nodes[i].Send(e.hash, &node.Call{
		Script: script.Seal, Keys: []string{e.key.Lock, e.key.Counter},
		Args: []any{e.req.Owner, e.req.TTL.Milliseconds(), e.token, e.reserved, counterTTL.Milliseconds(), e.round},
		Done: func(reply any, err error) { e.wasSealed(reply, err) },
	})
}

func (e *election) wasSealed(reply any, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sealing--
	if mine, _ := reply.(int64); err == nil && mine == 1 {
		e.sealed++
	}
	e.finish()
	if e.phase == sealing && (e.sealed >= e.s.cfg.quorum || e.sealing == 0 && e.ballots.answered() == len(e.ballots)) {
		e.settle()
	}
}
