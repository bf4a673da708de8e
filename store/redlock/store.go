package redlock

import (
	"context"
	"hash/fnv"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/lifetime"
	"github.com/keyturn/keyturn/store/internal/onredis"
	"github.com/keyturn/keyturn/store/redlock/internal/node"
	"github.com/keyturn/keyturn/store/redlock/internal/script"
	"github.com/keyturn/keyturn/store/redlock/internal/wake"
)

const (
	// counterTTL is for how long a node keeps the counter of a key after its last token. A token is
	// a time in µs, so from then on the clock alone makes greater ones, unless it was set back by
	// more than that.
	counterTTL = time.Hour
	// forcedTTL is for how long the owner of a lease that was taken by force can learn the reason.
	forcedTTL = time.Hour
	// turn is for how long a waiter that was called is waited for.
	turn = 100 * time.Millisecond
	// connTimeout is after what time a connection that does not answer is given up. A slow node's
	// answer is still of use after the node timeout: its vote then gets its token.
	connTimeout = time.Second
)

// Store implements [driver.Store] for exclusive claims, one at a time. Make one with [New]. It is
// safe for concurrent use.
type Store struct {
	driver.Unsupported
	clients []*redis.Client
	owned   []*redis.Client // those that Close closes
	nodes   []*node.Node
	cfg     config
	names   script.Names
	inbox   *wake.Inbox
	health  health
	crowds  crowds
	owners  owners
	rounds  atomic.Int64 // the last round's name

	ctx    context.Context // ends when Close begins, and ends all waits
	cancel context.CancelFunc

	calls lifetime.Lifetime // and the goroutines that they leave behind
}

var _ driver.Store = (*Store)(nil)

// New makes a store over independent servers: an odd number from 3 to 15, each with a client of its
// own. The clients stay the caller's: Close does not close them. The store keeps two connections to
// each node, and a third while it waits for keys whose messages come from that node. New does no
// I/O.
//
// The error joins every [*driver.OptionError].
func New(nodes []*redis.Client, opts ...Option) (*Store, error) {
	cfg, err := build(nodes, opts)
	if err != nil {
		return nil, err
	}
	names := script.Names{Prefix: onredis.Prefix(cfg.prefix)}
	s := &Store{
		clients: slices.Clone(nodes), cfg: cfg, names: names,
	}
	s.health.errs, s.health.runs = make([]error, len(nodes)), make([]string, len(nodes))
	s.health.abstains = make([]atomic.Bool, len(nodes))
	s.rounds.Store(time.Now().UnixNano()) // another store may have asked for the same owner before
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.inbox = wake.New(wake.Config{Channel: names.NewInbox(), Clients: s.clients, Life: s.ctx, Go: s.calls.Go})
	for i, c := range nodes {
		s.nodes = append(s.nodes, node.New(node.Config{
			Client: c, Timeout: s.roundTimeout(), Go: s.calls.Go, Life: s.ctx,
			Met:     func(runID string) error { return s.health.met(i, runID) },
			Changed: func(err error) { s.health.changed(s, i, err) },
		}))
	}
	return s, nil
}

// Describe implements [driver.Store]. The name is "redlock". The store is impaired while nodes do
// not answer or abstain; the reason names them.
func (s *Store) Describe() driver.Description {
	return driver.Description{
		Name: "redlock", Unordered: true, Inspector: true, TTLs: driver.TTLs{Most: s.cfg.maxTTL},
		OnImpaired: s.health.watch, Examine: s.examine,
	}
}

// roundTimeout bounds a round trip to a node.
func (s *Store) roundTimeout() time.Duration { return max(connTimeout, 4*s.cfg.nodeTimeout) }

// Close implements [driver.Store]. It waits for calls and requests under way, five seconds at most;
// the error says if that was not enough. A second Close waits for the first and returns the same
// error.
func (s *Store) Close() error {
	return s.calls.Close(func() error {
		s.cancel()
		return s.calls.Drain("redlock", func() {
			for _, n := range s.nodes {
				n.Close() // uses what their goroutines use
			}
			closeAll(s.owned)
		})
	})
}

// check refuses, before any I/O, what the nodes could not keep.
func (s *Store) check(owner string, claims []driver.Claim, ttl time.Duration) error {
	if err := driver.CheckLease(owner, claims, ttl); err != nil {
		return err
	}
	switch {
	case len(claims) > 1:
		return &driver.UnsupportedError{Feature: "sets of claims"}
	case claims[0].Mode == driver.ModeShared:
		return &driver.UnsupportedError{Feature: "shared claims"}
	case claims[0].Mode == driver.ModePermit:
		return &driver.UnsupportedError{Feature: "permits"}
	}
	return nil
}

// hash chooses the lane of a key's requests, and its gate.
func hash(key string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(key)) // never fails
	return h.Sum32()
}

// gate returns the node whose line the waiters for a key get into: always the same one while it
// answers. Processes may disagree about that, and then only the order suffers.
func (s *Store) gate(hash uint32) int {
	n := len(s.nodes)
	first := int(hash>>8) % n
	for i := range n {
		if at := (first + i) % n; s.nodes[at].Up() {
			return at
		}
	}
	return first
}

// now estimates the time in µs: the middle one of the nodes' clocks, so that one wrong clock makes no
// difference. 0: too few are known.
func (s *Store) now() int64 {
	clocks := make([]int64, 0, 16)
	for _, n := range s.nodes {
		if now, ok := n.Clock(); ok {
			clocks = append(clocks, now)
		}
	}
	if len(clocks) < s.cfg.quorum {
		return 0
	}
	return middle(clocks)
}

// middle returns the median, or the lower of two.
func middle(clocks []int64) int64 {
	slices.Sort(clocks)
	return clocks[(len(clocks)-1)/2]
}
