package send

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/store/redisstore/internal/script"
)

// inline sends a request on its caller's own goroutine. To hand it to another one
// and back takes the scheduler longer than a server next door takes to answer.
// But whoever sends it can't leave before go-redis does, whatever its context
// says. So that is for a request that would leave alone, to a server that has
// answered the last one, and with little patience; should that not do, it is
// sent again in the ordinary way, as go-redis itself would.
type inline struct {
	only    *server              // of a client of one server
	cluster *redis.ClusterClient // or nil
	known   atomic.Bool          // the cluster has answered: to look for a server is no I/O
	servers sync.Map             // of a cluster: from its *redis.Client to *server
	slots   slots
}

// server is one that requests may be sent to directly.
type server struct {
	client *redis.Client // the caller's, with a short timeout
	addr   string
	well   atomic.Bool // the last request was answered
	ill    atomic.Bool // it was not
	limits sync.Pool   // of *timeout
}

func newServer(c *redis.Client) *server {
	limit := inlineTimeout
	if d := c.Options().ReadTimeout; d > 0 {
		limit = min(limit, d)
	}
	return &server{client: c.WithTimeout(limit), addr: c.Options().Addr, limits: sync.Pool{New: func() any { return new(timeout) }}}
}

func (d *inline) open(cfg Config) {
	switch c := cfg.Client.(type) {
	case *redis.Client:
		d.only = newServer(c)
	case *redis.ClusterClient:
		d.cluster = c
		d.slots.cluster, d.slots.run, d.slots.life = c, cfg.Go, cfg.Life
	}
}

// of returns the server that has name, or nil if that is not known.
func (d *inline) of(name string) *server {
	if d.only != nil || d.cluster == nil || !d.known.Load() {
		return d.only
	}
	c, err := d.cluster.MasterForKey(context.Background(), name)
	if err != nil {
		return nil
	}
	return d.server(c)
}

// replacement returns a replica of the master that has name, as far as the client knows, if
// that master fails to answer. Should the replica have been promoted, it does what it
// is asked. Until then it says that the slot is the other's: unless the client has
// told it that reading will do, when it would answer from data that lags behind.
func (d *inline) replacement(name string, master *server) *server {
	if d.cluster == nil || !master.ill.Load() || d.cluster.Options().ReadOnly {
		return nil
	}
	c, err := d.cluster.SlaveForKey(context.Background(), name)
	if err != nil {
		return nil
	}
	if n := d.server(c); n != master && !n.ill.Load() {
		return n
	}
	return nil
}

// server is what is kept about a node of a cluster.
func (d *inline) server(c *redis.Client) *server {
	n, ok := d.servers.Load(c)
	if !ok {
		// Those that have left the cluster stay: they are few, and their
		// connections are closed.
		n, _ = d.servers.LoadOrStore(c, newServer(c))
	}
	return n.(*server)
}

// heard takes in how a request about name ended.
func (d *inline) heard(name string, err error) {
	well := script.Answered(err)
	if well && !d.known.Load() {
		d.known.Store(true)
	}
	if n := d.of(name); n != nil {
		n.heard(well)
	}
	d.slots.heard(err)
}

func (n *server) heard(well bool) {
	if n.well.Load() != well {
		n.well.Store(well)
	}
	if n.ill.Load() == well {
		n.ill.Store(!well)
	}
}

// inlineTimeout is how long each of go-redis' attempts may take.
const inlineTimeout = 50 * time.Millisecond

// inlineBound is how long all of them may take, with what comes before: a wait for
// a connection, and making one. To a machine that is gone that takes 5 s a try.
const inlineBound = 2 * inlineTimeout

// sendInline reports whether r has a reply, or an error of the server's.
func (s *Sender) sendInline(ctx context.Context, r *Request) bool {
	name := r.Slot(s.Names)
	n := s.inline.of(name)
	if n == nil || r.Replicas > 0 || ctx.Err() != nil {
		return false
	}
	if !n.well.Load() {
		if n = s.inline.replacement(name, n); n == nil {
			return false
		}
	}
	if s.Names.Topology() == script.Single {
		if !r.shares() || !s.gather.takeIdle() {
			return false
		}
		defer s.gather.free()
	}
	limit := n.limits.Get().(*timeout)
	defer n.limits.Put(limit)
	ctx = limit.start(ctx, inlineBound)
	defer limit.stop()
	var err error
	if r.IsPlain() {
		err = s.sendTogether(ctx, n.client, r.Alone())
	} else {
		err = r.Run(ctx, n.client, s.Names).Finish(nil)
	}
	if err != nil && (redis.HasErrorPrefix(err, "MOVED ") || redis.HasErrorPrefix(err, "ASK ")) {
		r.Attempts.Refused++ // the cluster's client knows where to ask
		return false
	}
	well := script.Answered(err)
	n.heard(well)
	s.inline.slots.heard(err)
	return well
}
