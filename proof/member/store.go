package member

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/pgx/pgwake"
	_ "github.com/keyturn/keyturn/store/etcdstore" // etcd://
	"github.com/keyturn/keyturn/store/redisstore"
	"github.com/keyturn/keyturn/store/redlock"
	"github.com/keyturn/keyturn/store/sqlstore"
	"github.com/keyturn/keyturn/store/storeurl"
	_ "github.com/keyturn/keyturn/store/zkstore" // zk://
)

// silent is for stores and engines: most of what is lost is meant to be.
var silent = slog.New(slog.DiscardHandler)

// waiterLease is short, because processes are killed all the time.
const waiterLease = time.Second

// MaxTTL is the longest TTL that redlock's nodes have to know of.
const MaxTTL = 2 * time.Second

// open makes the store of the process. done closes what the store does not.
func (p Process) open(ctx context.Context) (store driver.Store, done func() error, err error) {
	nothing := func() error { return nil }
	switch p.Topology {
	case "postgres":
		return p.openDatabase(ctx)
	case "etcd", "zookeeper":
		store, err = p.openURL(ctx)
		return store, nothing, err
	case "redlock":
		var clients []*redis.Client
		for _, addr := range p.Addrs {
			clients = append(clients, redis.NewClient(&redis.Options{Addr: addr}))
		}
		store, err = redlock.New(clients, redlock.WithMaxTTL(MaxTTL))
		return store, nothing, err
	}
	opts := []redisstore.Option{redisstore.WithWaiterLease(waiterLease), redisstore.WithLogger(silent)}
	if p.Replicas > 0 {
		opts = append(opts, redisstore.WithReplicas(p.Replicas, 500*time.Millisecond))
	}
	store, err = redisstore.New(p.client(), opts...)
	return store, nothing, err
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

// URL is that of a store of etcd or ZooKeeper. The servers of the trials allow sessions of two seconds.
func (p Process) URL() string {
	if p.Topology == "etcd" {
		return fmt.Sprintf("etcd://%s?waiter_lease=%v", p.Addrs[0], waiterLease)
	}
	return fmt.Sprintf("zk://%s?session=2s", p.Addrs[0])
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

// openDatabase connects for as long as it takes, because faults strike at the beginning, too. Every
// other process gets messages, and keeps leases that nobody uses.
func (p Process) openDatabase(ctx context.Context) (driver.Store, func() error, error) {
	db, err := sql.Open("pgx", p.Addrs[0])
	if err != nil {
		return nil, nil, err
	}
	for {
		store, err := p.tryDatabase(ctx, db)
		if err == nil {
			return store, db.Close, nil
		}
		if ctx.Err() != nil || !errors.Is(err, driver.ErrUnavailable) {
			return nil, nil, errors.Join(err, db.Close())
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (p Process) tryDatabase(ctx context.Context, db *sql.DB) (driver.Store, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	opts := []sqlstore.Option{sqlstore.WithWaiterLease(waiterLease), sqlstore.WithPoll(50 * time.Millisecond), sqlstore.WithLogger(silent)}
	if p.Nr%2 == 1 {
		listener, err := pgwake.Dial(ctx, p.Addrs[0])
		if err != nil {
			return nil, &driver.UnavailableError{Op: "listen", Err: err}
		}
		opts = append(opts, sqlstore.WithWaker(listener))
		store, err := sqlstore.New(ctx, db, sqlstore.Postgres, opts...)
		if err != nil {
			_ = listener.Close() // it returns nil
			return nil, err
		}
		return store, nil
	}
	return sqlstore.New(ctx, db, sqlstore.Postgres, opts...)
}
