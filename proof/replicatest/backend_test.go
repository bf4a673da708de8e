package replicatest

import (
	"log/slog"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/etcdtest"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/internal/sqltest"
	"github.com/keyturn/keyturn/internal/zktest"
	_ "github.com/keyturn/keyturn/store/etcdstore" // etcd://
	"github.com/keyturn/keyturn/store/redisstore"
	"github.com/keyturn/keyturn/store/sqlstore"
	"github.com/keyturn/keyturn/store/storeurl"
	"github.com/keyturn/keyturn/store/zkstore"
)

var silent = slog.New(slog.DiscardHandler)

// backend is what the replicas of a service share.
type backend struct {
	open  func(*testing.T) (driver.Store, error) // the store of one replica
	kill  func()
	looks bool // waiters look now and then, because no message reaches them
}

// maxWait is how long a request waits. Against some servers it does so in an outage, too.
func (b *backend) maxWait() time.Duration {
	if b.looks {
		return 30 * time.Second
	}
	return 10 * time.Second
}

// onBackends runs a test on each server that locks can be in. The middlewares know nothing of it, so the short
// run has one with messages, and one without.
func onBackends(t *testing.T, test func(*testing.T, *backend)) {
	for name, start := range map[string]func(*testing.T) *backend{
		"redis": onRedis, "etcd": onEtcd, "zookeeper": onZooKeeper, "postgres": onPostgres,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "etcd" || name == "zookeeper" {
				servertest.Long(t)
			}
			test(t, start(t))
		})
	}
}

func onRedis(t *testing.T) *backend {
	server := redistest.Start(t)
	return &backend{kill: server.Kill, open: func(*testing.T) (driver.Store, error) {
		return redisstore.New(server.Client(), redisstore.WithLogger(silent))
	}}
}

func onEtcd(t *testing.T) *backend {
	server := etcdtest.Start(t)
	return &backend{kill: server.Kill, open: func(t *testing.T) (driver.Store, error) {
		return storeurl.Open(t.Context(), "etcd://"+server.Addr())
	}}
}

func onZooKeeper(t *testing.T) *backend {
	server := zktest.Start(t)
	return &backend{kill: server.Kill, open: func(t *testing.T) (driver.Store, error) {
		return zkstore.New(t.Context(), []string{server.Addr()}, zkstore.WithSession(2*time.Second), zkstore.WithLogger(silent))
	}}
}

// onPostgres has a database of its own on a server that all tests share. Its end is that of the network.
func onPostgres(t *testing.T) *backend {
	database := sqltest.Postgres(t)
	must(t, sqlstore.Migrate(t.Context(), database.Open(t), sqlstore.Postgres))
	network := servertest.NewProxy(t, database.Server.Addr())
	return &backend{looks: true, kill: network.Cut, open: func(t *testing.T) (driver.Store, error) {
		return sqlstore.New(t.Context(), database.OpenAt(t, network.Addr()), sqlstore.Postgres, sqlstore.WithLogger(silent), sqlstore.WithPoll(20*time.Millisecond))
	}}
}
