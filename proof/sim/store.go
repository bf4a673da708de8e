package sim

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/redisstore"
	"github.com/keyturn/keyturn/store/redlock"
)

// waiterLease is short, because processes are killed all the time.
const waiterLease = time.Second

// maxTTL is the longest TTL, for which a node of redlock gives no vote after its start.
const maxTTL = 2 * time.Second

// The stores that fleets can have.
const (
	Redisstore = "redisstore"
	Redlock    = "redlock" // on five servers
	Natsstore  = "natsstore"
	Sqlstore   = "sqlstore"
	Etcdstore  = "etcdstore"
	Zkstore    = "zkstore"
)

// A backend is a store in the simulator: its servers, and what may happen to it.
type backend struct {
	boot         func(*fleet) error // starts the servers
	redisServers int
	open         func(*fleet, *process) (store driver.Store, hangUp func(), err error)
	outside      func(*testing.T) (after func()) // runs before the bubble; nil: nothing has to
	faults       []kind                          // that may strike

	keepsData bool // no fault loses its data
	replicas  bool // they may have to confirm each grant
	plain     bool // it has neither sets, nor other modes, nor records
	lingers   bool // it tells an engine that somebody wants what lingers
	// forgets: a node that was started anew ends leases that it has forgotten, so nobody can say that a
	// loss had no cause.
	forgets      bool
	wholeSeconds bool // its TTLs, of which the shortest is 2 s
	lateGrants   bool // a request that is under way while all data is lost may be granted after that
}

var backends = map[string]*backend{
	Redisstore: {redisServers: 1, boot: (*fleet).bootRedis, open: (*fleet).openRedisstore, faults: kinds, replicas: true, lingers: true},
	Redlock:    {redisServers: nodes, boot: (*fleet).bootRedis, open: (*fleet).openRedlock, faults: kindsOfNodes, keepsData: true, plain: true, forgets: true},
	Natsstore:  {boot: (*fleet).bootNATS, open: (*fleet).openNATS, outside: stopNATSClock, faults: kindsOfNATS, lateGrants: true, lingers: true},
	Sqlstore:   {boot: (*fleet).bootSQL, open: (*fleet).openSQL, faults: kindsOfSQL},
	Etcdstore:  {boot: (*fleet).bootEtcd, open: (*fleet).openEtcd, faults: kindsOfEtcd, wholeSeconds: true, lingers: true},
	Zkstore:    {boot: (*fleet).bootZooKeeper, open: (*fleet).openZooKeeper, faults: kindsOfZooKeeper, lingers: true},
}

// way makes the way of a process to a host.
func (f *fleet) way(p *process, host int) *way {
	w := &way{net: f.net, to: f.hosts[host], nr: uint64(p.nr) + uint64(host)<<32, conns: map[*link]bool{}}
	p.ways = append(p.ways, w)
	return w
}

// clients makes the clients of a process, one for each server.
func (f *fleet) clients(p *process) (clients []*redis.Client, hangUp func()) {
	for i := range f.hosts {
		w := f.way(p, i)
		clients = append(clients, redis.NewClient(&redis.Options{
			Addr:   fmt.Sprintf("192.0.2.%d:6379", i+1),
			Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) { return w.dial(ctx) },
			// It holds a mutex while it asks the server, and then time stands still in a bubble.
			MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		}))
	}
	return clients, func() {
		for _, c := range clients {
			_ = c.Close()
		}
	}
}

func (f *fleet) openRedlock(p *process) (store driver.Store, hangUp func(), err error) {
	clients, hangUp := f.clients(p)
	store, err = redlock.New(clients, redlock.WithMaxTTL(maxTTL))
	return store, hangUp, err
}

func (f *fleet) openRedisstore(p *process) (store driver.Store, hangUp func(), err error) {
	clients, hangUp := f.clients(p)
	opts := []redisstore.Option{redisstore.WithWaiterLease(waiterLease), redisstore.WithLogger(silent)}
	if f.confirmed {
		opts = append(opts, redisstore.WithReplicas(2, f.TTL/20))
	}
	store, err = redisstore.New(clients[0], opts...)
	return store, hangUp, err
}
