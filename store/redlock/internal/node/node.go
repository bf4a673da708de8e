package node

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/internal/hooked"
	"github.com/keyturn/keyturn/store/internal/onredis"
	"github.com/keyturn/keyturn/store/redlock/internal/script"
)

// connQueues is how many connections a node has. Requests of different connQueues do not wait for each other.
const connQueues = 2

// pause is how long a node that refused a connection is left alone. Otherwise each request to a dead
// node would dial.
const pause = 50 * time.Millisecond

const (
	// repeat is the pause before a call is sent again.
	repeat = 300 * time.Millisecond
	// mostOwed bounds the memory for calls that are to be sent again. What such calls would undo
	// ends with its TTL otherwise.
	mostOwed = 4096
)

var (
	// ErrLate: the request was not sent, because it had waited for too long behind others.
	ErrLate = errors.New("redlock: the node is too slow")
	errLost = errors.New("redlock: the connection was lost")
	// errRunID: without the run id nobody can tell whether the server was started anew.
	errRunID = errors.New("redlock: INFO server has no run_id")
)

// Config is what a node needs.
type Config struct {
	Client *redis.Client
	// Timeout bounds a round trip. After that the connection is given up.
	Timeout time.Duration
	// Met is called with the run id of the server on each new connection. After an error the
	// connection is not used.
	Met func(runID string) error
	// Changed is called when the node stops answering, with the reason, and with nil when it answers
	// again.
	Changed func(error)
	// Life ends when the store closes. Calls that are owed by then are sent once more, and then
	// forgotten.
	Life context.Context
	// Go runs a goroutine that the store waits for.
	Go func(func())
}

// Node is one server. It is safe for concurrent use.
type Node struct {
	cfg        Config
	connQueues [connQueues]connQueue
	clock      atomic.Pointer[reading] // the last one

	failing atomic.Bool
	losses  atomic.Int64 // connections that were lost
	owed    atomic.Int64 // calls that are to be sent again
	slow    atomic.Int64 // µs of this process's clock until which the node counts as slow

	mu    sync.Mutex
	err   error     // why it last failed
	again time.Time // not dialled before
}

// New makes a node. It does no I/O.
func New(cfg Config) *Node {
	n := &Node{cfg: cfg}
	for i := range n.connQueues {
		n.connQueues[i].node = n
	}
	return n
}

// Call is a script for a node to run.
type Call struct {
	Script *script.Script
	Keys   []string
	Args   []any
	// RunID: the run id of the server is the last argument.
	RunID bool
	// Until: the call is not sent after that. Zero: it is sent in any case.
	Until time.Time
	// Again: if the call gets no answer, it is sent again until then. Zero: it is sent once.
	Again time.Time
	// Certain reports whether a reply tells what the call has done if it was sent twice, the first
	// time in vain or not. Nil: every reply does.
	Certain func(reply any) bool
	// Done gets the reply, or the error of the first try. It must not block.
	Done func(reply any, err error)

	repeated bool
}

// Send sends calls after those that were sent with the same hash before.
func (n *Node) Send(hash uint32, c *Call) { n.connQueues[hash%connQueues].put(c) }

// Up reports whether the node answered last, and in time.
func (n *Node) Up() bool {
	return !n.failing.Load() && time.Now().UnixMicro() >= n.slow.Load()
}

// Slow makes the node count as one that is down for d.
func (n *Node) Slow(d time.Duration) { n.slow.Store(time.Now().Add(d).UnixMicro()) }

// Close ends the connections, when no call is under way.
func (n *Node) Close() {
	for i := range n.connQueues {
		n.connQueues[i].hangUp()
	}
}

// answered notes that the node can be reached.
func (n *Node) answered() {
	if !n.failing.Load() {
		return
	}
	n.mu.Lock()
	n.err = nil // so that the other connQueue may dial at once
	n.mu.Unlock()
	if n.failing.CompareAndSwap(true, false) {
		n.cfg.Changed(nil)
	}
}

// failed notes that it can't be.
func (n *Node) failed(err error) {
	n.mu.Lock()
	n.err, n.again = err, time.Now().Add(pause)
	n.mu.Unlock()
	if n.failing.CompareAndSwap(false, true) {
		n.cfg.Changed(err)
	}
}

// resting returns why the node is not dialled now, and for how long; nil: it may be dialled.
func (n *Node) resting() (left time.Duration, why error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if left = time.Until(n.again); n.err != nil && left > 0 {
		return left, n.err
	}
	return 0, nil
}

// runID asks for the name of the server's process.
func runID(ctx context.Context, c hooked.Client) (string, error) {
	text, err := c.Info(ctx, "server").Result()
	if err != nil {
		return "", err
	}
	id := onredis.Field(text, "run_id")
	if id == "" {
		return "", errRunID
	}
	return id, nil
}
