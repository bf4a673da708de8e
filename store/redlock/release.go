package redlock

import (
	"context"
	"fmt"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/redlock/internal/node"
	"github.com/keyturn/keyturn/store/redlock/internal/script"
)

// Release implements [driver.Store]. It returns when a quorum has answered; the other nodes are told,
// too. If a lease was held by so few nodes that some of them now are down, the first try may not
// know whether it was this owner's, and the next one says that it was lost.
func (s *Store) Release(ctx context.Context, g driver.Grant) error {
	if err := s.check(g.Owner, g.Claims, g.TTL); err != nil {
		return err
	}
	if err := s.calls.Enter(); err != nil {
		return err
	}
	defer s.calls.Leave()
	// The owner alone names the lease. A vote that came late may not have the lease's token yet, and
	// would stay.
	ended := s.release(ctx, g.Owner, anyToken, g.Claims[0].Key, g.TTL, "", "")
	return s.verdict("release", ended, g)
}

// release takes the votes for owner back, and returns what a quorum of nodes said.
func (s *Store) release(ctx context.Context, owner, token, name string, ttl time.Duration, ticket, round string) []answer[script.Ended] {
	n, q, key := len(s.nodes), s.cfg.quorum, s.names.Of(name)
	read := func(reply any) (script.Ended, error) {
		e, err := script.ReadRelease(reply)
		if e.Called {
			s.crowds.note(name)
		}
		return e, err
	}
	return ask(ctx, s, hash(name), s.takeBack(owner, token, key, ttl, ticket, round), read, func(a []answer[script.Ended]) bool {
		mine := agree(a, func(e script.Ended) bool { return e.Mine })
		// A waiter that gives up asks only whether the nodes answer.
		return mine >= q || answered(a)-mine > n-q && (ticket == "" || answered(a) >= q)
	})
}

// takeBack makes calls that take an owner's vote back. Otherwise a vote whose answer was lost would
// keep others out for its TTL, so a call that gets no answer is sent again for as long.
func (s *Store) takeBack(owner, token string, key script.Key, ttl time.Duration, ticket, round string) func() *node.Call {
	keys, args := []string{key.Lock, key.Line, key.Turn, key.Forced}, []any{owner, token, ticket, turn.Milliseconds(), round}
	again := time.Now().Add(ttl)
	return func() *node.Call {
		return &node.Call{Script: script.Release, Keys: keys, Args: args, Again: again, Certain: took}
	}
}

// took reports whether a release has certainly ended the lease, although it was sent twice.
func took(reply any) bool {
	e, err := script.ReadRelease(reply)
	return err == nil && (e.Mine || e.Forced)
}

// What a request to take a vote back says of the token.
const (
	anyToken = ""
	nobody   = "0" // no lease has it: only a ticket is given back
)

// undo takes the votes of a lost round back, in the background. The nodes get it behind the request
// for the vote, also those that have not answered yet.
func (s *Store) undo(owner, token string, key script.Key, hash uint32, ttl time.Duration, ticket, round string) {
	call := s.takeBack(owner, token, key, ttl, ticket, round)
	for _, n := range s.nodes {
		c := call()
		c.Done = func(any, error) {}
		n.Send(hash, c)
	}
}

// verdict is what a quorum says about a lease: nil if it was the owner's.
func (s *Store) verdict(op string, all []answer[script.Ended], g driver.Grant) error {
	n, q := len(s.nodes), s.cfg.quorum
	mine := agree(all, func(e script.Ended) bool { return e.Mine })
	switch {
	case mine >= q:
		return nil
	case answered(all)-mine > n-q:
		for _, a := range all {
			if a.value.Forced {
				return lost(g, true, a.value.Reason)
			}
		}
		return lost(g, false, "")
	}
	err := s.noQuorum(op, g.Claims[0].Key, errsOf(all))
	if op == "release" {
		return fmt.Errorf("%w: %w", driver.ErrOutcomeUnknown, err)
	}
	return err
}
