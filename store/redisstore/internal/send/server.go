package send

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/store/redisstore/internal/script"
)

// server is one that requests go to directly: the only one, or a master of a Cluster.
type server struct {
	gather
	client *redis.Client // the caller's, with a short timeout; nil: it is no client of one server
	addr   string
	well   atomic.Bool // the last request was answered
	ill    atomic.Bool // it was not
	limits sync.Pool   // of *timeout
}

// quickTimeout is how long each of go-redis' attempts may take where somebody can't leave
// before go-redis does, whatever a context says.
const quickTimeout = 50 * time.Millisecond

// quickBound is how long all of them may take, with what comes before: a wait for
// a connection, and making one. To a machine that is gone that takes 5 s a try.
const quickBound = 2 * quickTimeout

// newServer makes the server of c. Where few requests are under way their callers send
// them, if there are connections enough.
func newServer(c *redis.Client, few int32, run func(func())) *server {
	d := quickTimeout
	if limit := c.Options().ReadTimeout; limit > 0 {
		d = min(d, limit)
	}
	return &server{
		gather: gather{run: run, few: min(few, int32(c.Options().PoolSize))},
		client: c.WithTimeout(d), addr: c.Options().Addr, limits: sync.Pool{New: func() any { return new(timeout) }},
	}
}

// limit returns a timeout, and ctx without its end, but with that of the timeout. The
// caller owes a done.
func (n *server) limit(ctx context.Context) (*timeout, context.Context) {
	t := n.limits.Get().(*timeout)
	return t, t.start(ctx, quickBound)
}

func (n *server) done(t *timeout) {
	t.stop()
	n.limits.Put(t)
}

// heard takes in whether a request was answered.
func (n *server) heard(well bool) {
	if n.well.Load() != well {
		n.well.Store(well)
	}
	if n.ill.Load() == well {
		n.ill.Store(!well)
	}
}

// servers are those that the client is connected to, as far as is known.
type servers struct {
	only    *server              // where one has all keys
	cluster *redis.ClusterClient // or nil
	fresh   func(*redis.Client) *server
	known   atomic.Bool // the cluster has answered: to look for a server is no I/O
	masters sync.Map    // of a cluster: from its *redis.Client to *server
	slots   slots
}

// of returns the server that has name, or nil if that is not known.
func (all *servers) of(name string) *server {
	if all.cluster == nil || !all.known.Load() {
		return all.only
	}
	c, err := all.cluster.MasterForKey(context.Background(), name)
	if err != nil {
		return nil
	}
	return all.node(c)
}

// quick returns the server that name can be asked for with little patience: one that
// answered the last time; or nil.
func (all *servers) quick(name string) *server {
	n := all.of(name)
	if n == nil || n.client == nil || n.well.Load() {
		return n
	}
	return all.replacement(name, n)
}

// replacement returns a replica of the master that has name, as far as the client knows, if
// that master fails to answer. Should the replica have been promoted, it does what it
// is asked. Until then it says that the slot is the other's: unless the client has
// told it that reading will do, when it would answer from data that lags behind.
func (all *servers) replacement(name string, master *server) *server {
	if all.cluster == nil || !master.ill.Load() || all.cluster.Options().ReadOnly {
		return nil
	}
	c, err := all.cluster.SlaveForKey(context.Background(), name)
	if err != nil {
		return nil
	}
	if n := all.node(c); n != master && !n.ill.Load() {
		return n
	}
	return nil
}

// node is what is kept about a node of a cluster.
func (all *servers) node(c *redis.Client) *server {
	n, ok := all.masters.Load(c)
	if !ok {
		// Those that have left the cluster stay: they are few, and their
		// connections are closed.
		n, _ = all.masters.LoadOrStore(c, all.fresh(c))
	}
	return n.(*server)
}

// heard takes in how a request about name ended.
func (all *servers) heard(name string, err error) {
	well := script.Answered(err)
	if well && !all.known.Load() {
		all.known.Store(true)
	}
	if n := all.of(name); n != nil {
		n.heard(well)
	}
	all.slots.heard(err)
}
