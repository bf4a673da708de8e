package redisstore

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/store/redisstore/internal/script"
)

// direct sends a request on its caller's own goroutine. To hand it to another one
// and back takes the scheduler longer than a server next door takes to answer.
// But whoever sends it can't leave before go-redis does, whatever its context
// says. So that is for a request that would leave alone, to a server that has
// answered the last one, and with little patience; should that not do, it is
// sent again in the ordinary way, as go-redis itself would.
type direct struct {
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
	fuses  sync.Pool
}

func newServer(c *redis.Client) *server {
	patience := directPatience
	if d := c.Options().ReadTimeout; d > 0 {
		patience = min(patience, d)
	}
	return &server{client: c.WithTimeout(patience), addr: c.Options().Addr, fuses: sync.Pool{New: func() any { return new(fuse) }}}
}

func (d *direct) open(s *Store) {
	switch c := s.client.(type) {
	case *redis.Client:
		d.only = newServer(c)
	case *redis.ClusterClient:
		d.cluster = c
		d.slots.cluster, d.slots.run, d.slots.ctx = c, s.tasks.Go, s.ctx
	}
}

// of returns the server that has name, or nil if that is not known.
func (d *direct) of(name string) *server {
	if d.only != nil || d.cluster == nil || !d.known.Load() {
		return d.only
	}
	c, err := d.cluster.MasterForKey(context.Background(), name)
	if err != nil {
		return nil
	}
	return d.server(c)
}

// heir returns a replica of the master that has name, as far as the client knows, if
// that master fails to answer. Should the replica have been promoted, it does what it
// is asked. Until then it says that the slot is the other's: unless the client has
// told it that reading will do, when it would answer from data that lags behind.
func (d *direct) heir(name string, master *server) *server {
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
func (d *direct) server(c *redis.Client) *server {
	n, ok := d.servers.Load(c)
	if !ok {
		// Those that have left the cluster stay: they are few, and their
		// connections are closed.
		n, _ = d.servers.LoadOrStore(c, newServer(c))
	}
	return n.(*server)
}

// heard takes in how a request about name ended.
func (d *direct) heard(name string, err error) {
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

// directPatience is how long each of go-redis' attempts may take.
const directPatience = 50 * time.Millisecond

// directBound is how long all of them may take, with what comes before: a wait for
// a connection, and making one. To a machine that is gone that takes 5 s a try.
const directBound = 2 * directPatience

// sendDirectly reports whether r has a reply, or an error of the server's.
func (s *Store) sendDirectly(ctx context.Context, r *request) bool {
	name := r.Slot(s.keys)
	n := s.direct.of(name)
	if n == nil || r.replicas > 0 || ctx.Err() != nil {
		return false
	}
	if !n.well.Load() {
		if n = s.direct.heir(name, n); n == nil {
			return false
		}
	}
	if s.keys.Topology() == script.Single {
		if !r.fits() || !s.departures.alone() {
			return false
		}
		defer s.departures.back()
	}
	f := n.fuses.Get().(*fuse)
	defer n.fuses.Put(f)
	ctx = f.light(ctx, directBound)
	defer f.putOut()
	var err error
	if r.IsPlain() {
		err = s.sendTogether(ctx, n.client, r.alone())
	} else {
		err = r.Run(ctx, n.client, s.keys).Finish(nil)
	}
	if err != nil && (redis.HasErrorPrefix(err, "MOVED ") || redis.HasErrorPrefix(err, "ASK ")) {
		r.Attempts.Refused++ // the cluster's client knows where to ask
		return false
	}
	well := script.Answered(err)
	n.heard(well)
	s.direct.slots.heard(err)
	return well
}
