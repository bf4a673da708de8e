package sim

import (
	"context"
	"fmt"
	"net"
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
)

// way makes the way of a process to a host.
func (f *fleet) way(p *process, host int) *way {
	w := &way{net: f.net, to: f.hosts[host], nr: uint64(p.nr) + uint64(host)<<32, conns: map[*link]bool{}}
	p.ways = append(p.ways, w)
	return w
}

// open makes the store of a process.
func (f *fleet) open(p *process) (store driver.Store, hangUp func(), err error) {
	if f.Store == Natsstore {
		return f.openNATS(p)
	}
	return f.openRedis(p)
}

// openRedis makes a redisstore, or a redlock over all servers.
func (f *fleet) openRedis(p *process) (store driver.Store, hangUp func(), err error) {
	var clients []*redis.Client
	for i := range f.hosts {
		w := f.way(p, i)
		clients = append(clients, redis.NewClient(&redis.Options{
			Addr:   fmt.Sprintf("192.0.2.%d:6379", i+1),
			Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) { return w.dial(ctx) },
			// It holds a mutex while it asks the server, and then time stands still in a bubble.
			MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		}))
	}
	hangUp = func() {
		for _, c := range clients {
			_ = c.Close()
		}
	}
	if f.Store == Redlock {
		store, err = redlock.New(clients, redlock.WithMaxTTL(maxTTL))
		return store, hangUp, err
	}
	opts := []redisstore.Option{redisstore.WithWaiterLease(waiterLease), redisstore.WithLogger(silent)}
	if f.Replicas > 0 {
		opts = append(opts, redisstore.WithReplicas(f.Replicas, f.TTL/20))
	}
	store, err = redisstore.New(clients[0], opts...)
	return store, hangUp, err
}
