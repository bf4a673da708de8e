package redlock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/redlock/internal/node"
)

// Errors in addition to those of [driver.Store]. They also match driver.ErrUnavailable.
var (
	// ErrNoQuorum: too few nodes answered.
	ErrNoQuorum = errors.New("redlock: no quorum")
	// ErrAbstaining: too many nodes give no vote, because they were started a short time ago and may
	// have forgotten leases. See [WithMaxTTL] and [Store.Init].
	ErrAbstaining = errors.New("redlock: nodes abstain after their start")
	// ErrSameServer: two nodes are the same server.
	ErrSameServer = errors.New("redlock: two nodes are the same server")
	// ErrNotNew: [Store.Init] found nodes that have been in use.
	ErrNotNew = errors.New("redlock: nodes have been in use")
)

// NodeError is the error of one node. It is part of the errors that match ErrNoQuorum.
type NodeError struct {
	Node int    // its index in the list given to New
	Addr string // the address in its client's options
	Err  error
}

func (e *NodeError) Error() string { return fmt.Sprintf("node %d (%s): %v", e.Node, e.Addr, e.Err) }

// Unwrap returns Err.
func (e *NodeError) Unwrap() error { return e.Err }

// AbstainError says that a node gives no vote yet.
type AbstainError struct {
	Left time.Duration // by the node's clock
}

func (e *AbstainError) Error() string {
	return fmt.Sprintf("gives no vote for another %v after its start", e.Left.Round(time.Millisecond))
}

// Is makes errors.Is(err, ErrAbstaining) true.
func (e *AbstainError) Is(target error) bool { return target == ErrAbstaining }

// errSilent is for a node whose answer did not come in time.
var errSilent = errors.New("no answer in time")

// noQuorum is the error for a request that too few nodes answered as it needs. errs has an error or
// nil for each node. If so many hold something else under the key that there can't be a quorum, it matches
// driver.ErrForeign and is no outage.
func (s *Store) noQuorum(op, key string, errs []error) error {
	all := []error{ErrNoQuorum}
	refused := 0
	for i, err := range errs {
		if err == nil {
			continue
		}
		switch {
		case refuses(err):
			refused++
		case errors.Is(err, context.DeadlineExceeded):
			err = errSilent // it must not look like the caller's own timeout
		}
		all = append(all, &NodeError{Node: i, Addr: s.clients[i].Options().Addr, Err: err})
	}
	if count(errs, isForeign) > len(s.nodes)-s.cfg.quorum {
		return fmt.Errorf("redlock: %s of %q: %w: %w", op, key, driver.ErrForeign, errors.Join(all[1:]...))
	}
	return &driver.UnavailableError{
		Op: op, Key: key, Err: errors.Join(all...), Refused: refused > len(s.nodes)-s.cfg.quorum,
	}
}

// refuses reports whether a node's error is an answer, so that the node may still renew leases. A
// node that loads its data, or is busy with a script, serves nobody.
func refuses(err error) bool {
	var answer redis.Error
	serves := errors.As(err, &answer) && !redis.HasErrorPrefix(err, "LOADING ") && !redis.HasErrorPrefix(err, "BUSY ")
	return serves || errors.Is(err, ErrAbstaining)
}

// isForeign reports whether a node's error says that the key holds another type, so it is nobody's lock.
func isForeign(err error) bool {
	return errors.Is(err, driver.ErrForeign) || refuses(err) && strings.Contains(err.Error(), "WRONGTYPE")
}

// down reports whether a node's error says that it can't be reached. A node that is only slow may
// answer the next request.
func down(err error) bool {
	return !errors.Is(err, errSilent) && !errors.Is(err, node.ErrLate) && !errors.Is(err, context.DeadlineExceeded)
}

// count returns how many errors are like that.
func count(errs []error, like func(error) bool) (n int) {
	for _, err := range errs {
		if err != nil && like(err) {
			n++
		}
	}
	return n
}

// lost is the error for a lease that does not belong to its owner any more.
func lost(g driver.Grant, forced bool, reason string) error {
	e := &driver.LeaseLostError{Key: g.Claims[0].Key, Token: g.Token, Reason: driver.LossTaken}
	if forced {
		e.Reason, e.Detail = driver.LossForced, reason
	}
	return e
}
