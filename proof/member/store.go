package member

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/redistest"
	_ "github.com/keyturn/keyturn/pgx/pgwake"      // messages of PostgreSQL
	_ "github.com/keyturn/keyturn/store/etcdstore" // etcd://
	"github.com/keyturn/keyturn/store/redisstore"
	"github.com/keyturn/keyturn/store/redlock"
	_ "github.com/keyturn/keyturn/store/sqlstore" // postgres://
	"github.com/keyturn/keyturn/store/storeurl"
	_ "github.com/keyturn/keyturn/store/zkstore" // zk://
)

// waiterLease is short, because processes are killed all the time.
const waiterLease = time.Second

// MaxTTL is the longest TTL that redlock's nodes have to know of.
const MaxTTL = 2 * time.Second

// open makes the store of the process.
func (p Process) open(ctx context.Context) (driver.Store, error) {
	switch p.Topology {
	case "postgres", "etcd", "zookeeper":
		return p.openURL(ctx)
	case "redlock":
		var clients []*redis.Client
		for _, addr := range p.Addrs {
			clients = append(clients, redis.NewClient(&redis.Options{Addr: addr}))
		}
		return redlock.New(clients, redlock.WithMaxTTL(MaxTTL))
	}
	opts := []redisstore.Option{redisstore.WithWaiterLease(waiterLease)}
	if p.Replicas > 0 {
		opts = append(opts, redisstore.WithReplicas(p.Replicas, 500*time.Millisecond))
	}
	return redisstore.New(p.client(), opts...)
}

// client makes the client of a process, with go-redis' own settings.
func (p Process) client() redis.UniversalClient {
	switch p.Topology {
	case "sentinel":
		return redis.NewFailoverClient(&redis.FailoverOptions{MasterName: redistest.MasterName, SentinelAddrs: p.Addrs})
	case "cluster":
		return redis.NewClusterClient(&redis.ClusterOptions{Addrs: p.Addrs})
	default:
		return redis.NewClient(&redis.Options{Addr: p.Addrs[0]})
	}
}

// URL is that of a store of a database, etcd or ZooKeeper. On PostgreSQL every other process gets messages, and keeps
// leases that nobody uses. The servers of the trials allow sessions of two seconds.
func (p Process) URL() string {
	switch p.Topology {
	case "postgres":
		return fmt.Sprintf("%s&waiter_lease=%v&poll=50ms&waker=%s", p.Addrs[0], waiterLease, []string{"off", "on"}[p.Nr%2])
	case "etcd":
		return fmt.Sprintf("etcd://%s?waiter_lease=%v", p.Addrs[0], waiterLease)
	default:
		return fmt.Sprintf("zk://%s?session=2s", p.Addrs[0])
	}
}

// openURL connects for as long as it takes, because faults strike at the beginning, too.
func (p Process) openURL(ctx context.Context) (driver.Store, error) {
	try := func() (driver.Store, error) {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		return storeurl.Open(ctx, p.URL())
	}
	for {
		store, err := try()
		if err == nil || ctx.Err() != nil || !errors.Is(err, driver.ErrUnavailable) {
			return store, err
		}
		time.Sleep(20 * time.Millisecond)
	}
}
