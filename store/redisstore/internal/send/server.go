package send

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/internal/gather"
	"github.com/keyturn/keyturn/internal/hooked"
	"github.com/keyturn/keyturn/store/redisstore/internal/script"
)

// server is a server that requests go to directly: the only one, or a master of a Cluster.
type server struct {
	plain, others, patient gather.Gather[*Request]

	client hooked.Client // the caller's client with a short timeout; nil: it is not the client of one server
	direct bool          // a caller may send on its own goroutine: a dial ends with its context
	addr   string
	well   atomic.Bool // the last request was answered, and soon enough for quickTimeout
	ill    atomic.Bool // the last request was not answered
	limits sync.Pool   // of *timeout
}

// quickTimeout is how long each attempt of go-redis may take if a caller can't leave before
// go-redis returns, whatever its context says.
const quickTimeout = 50 * time.Millisecond

// quickAnswer is how soon a server has to answer so that the next request may have quickTimeout.
// Without this bound, each request to a server far away would first fail with that timeout, and
// go-redis would close its connection.
const quickAnswer = quickTimeout / 2

// quickBound is how long all attempts may take, with the time to wait for a connection and to
// make one. Without it, a connection to a machine that is gone would take 5 s per attempt.
const quickBound = 2 * quickTimeout

// newServer makes the server of c, which needs [server.gather].
func newServer(c *redis.Client) *server {
	d := quickTimeout
	if limit := c.Options().ReadTimeout; limit > 0 {
		d = min(d, limit)
	}
	return &server{
		client: hooked.WithTimeout(c, d), direct: direct(c.Options()), addr: c.Options().Addr,
		limits: sync.Pool{New: func() any { return new(timeout) }},
	}
}

// direct reports whether a dial ends with its context. That of TLS does not in go-redis, which uses
// tls.DialWithDialer: if a server accepts connections and is silent then, it takes the DialTimeout, 5 s. Nor
// does a function that returns credentials.
func direct(o *redis.Options) bool { return o.TLSConfig == nil && o.CredentialsProvider == nil }

const (
	// batchSize is the largest batch. The script of such a batch takes well below one or two
	// milliseconds of the server's time, and other clients wait for that time.
	batchSize = 128
	// perTrip is more than the server needs for most batches.
	perTrip = 200 * time.Microsecond
	// mostAlone is how many callers send their own requests to an only server at a time. Two batches of three
	// would be slower. With more callers they cost the server less, which is what all clients share.
	mostAlone = 6
)

// gather prepares the gathering of requests, which send then sends in batches.
//
// For an only server, few callers send their own plain requests, and two batches of many are under way:
// fewer and larger batches cost both sides less, but not by as much as they lose while they wait for each
// other. That is not so for requests that are not plain, because a batch makes the many functions of their
// scripts only once. Nor is it so for the masters of a Cluster, which are busy with the others' requests
// meanwhile: their batches are as large as they can be.
//
// Of the signs of life of waiters, one batch is under way at a time, however many there are. Other
// requests then find the server free within the time of one batch.
func (n *server) gather(run func(func()), only bool, send func(batch []*Request)) {
	answered := func(batch []*Request) {
		send(batch)
		for _, r := range batch {
			r.finished()
		}
	}
	for _, g := range []*gather.Gather[*Request]{&n.plain, &n.others, &n.patient} {
		g.Send, g.Go, g.Most, g.Alone, g.Trips, g.PerTrip = answered, run, batchSize, 1, 1, perTrip
	}
	n.patient.PerTrip = time.Hour
	if only {
		n.plain.Alone, n.plain.Trips = mostAlone, 2
	}
}

// with returns where r gathers.
func (n *server) with(r *Request) *gather.Gather[*Request] {
	switch {
	case r.Patient:
		return &n.patient
	case r.IsPlain():
		return &n.plain
	}
	return &n.others
}

// limit returns a timeout, and a context with the values of ctx that ends with the timeout, not
// with ctx. The caller must call done.
func (n *server) limit(ctx context.Context) (*timeout, context.Context) {
	t := n.limits.Get().(*timeout)
	return t, t.start(ctx, quickBound)
}

func (n *server) done(t *timeout) {
	t.stop()
	n.limits.Put(t)
}

// heard records how a request ended that was written at that time.
func (n *server) heard(err error, written time.Time) {
	answered := script.Answered(err)
	if well := answered && time.Since(written) < quickAnswer; n.well.Load() != well {
		n.well.Store(well)
	}
	if n.ill.Load() == answered {
		n.ill.Store(!answered)
	}
}

// servers has the servers that the client is connected to, as far as they are known.
type servers struct {
	only    *server              // the server that has all keys; nil on a Cluster
	cluster *redis.ClusterClient // or nil
	fresh   func(*redis.Client) *server
	known   atomic.Bool // the Cluster has answered: it needs no I/O to look for a server
	masters sync.Map    // of a cluster: from its *redis.Client to *server
	slots   slots
}

// of returns the server that has name, or nil if it is not known.
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

// quick returns the server that has name if that server answered soon the last time, so that a
// short timeout is enough; otherwise nil, or a replica in its place.
func (all *servers) quick(name string) *server {
	n := all.of(name)
	if n == nil || n.client == nil || n.well.Load() {
		return n
	}
	return all.replacement(name, n)
}

// replacement returns a replica of the master that has name, as far as the client knows, if
// that master fails to answer. If the replica has been promoted, it does the work. Until then
// it says that the slot belongs to the master. A client with ReadOnly gets none: for such a
// client the replica would answer from data that lags behind.
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

// node returns the server for a node of a Cluster.
func (all *servers) node(c *redis.Client) *server {
	n, ok := all.masters.Load(c)
	if !ok {
		// Nodes that have left the Cluster stay in the map: they are few, and their connections
		// are closed.
		n, _ = all.masters.LoadOrStore(c, all.fresh(c))
	}
	return n.(*server)
}

// heard records how a request about name ended that was written at that time.
func (all *servers) heard(name string, err error, written time.Time) {
	if script.Answered(err) && !all.known.Load() {
		all.known.Store(true)
	}
	if n := all.of(name); n != nil {
		n.heard(err, written)
	}
	all.slots.heard(err)
}
