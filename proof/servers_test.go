package main_test

import (
	"database/sql"
	"log/slog"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/drivertest/model"
	"github.com/keyturn/keyturn/internal/etcdtest"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/internal/sqltest"
	"github.com/keyturn/keyturn/internal/zktest"
	"github.com/keyturn/keyturn/pgx/pgwake"
	"github.com/keyturn/keyturn/store/etcdstore"
	"github.com/keyturn/keyturn/store/redisstore"
	"github.com/keyturn/keyturn/store/sqlstore"
	"github.com/keyturn/keyturn/store/zkstore"
)

func TestRedisDoesWhatTheModelDoes(t *testing.T) {
	t.Parallel()
	servertest.Long(t)
	server, cluster := redistest.Start(t), redistest.StartCluster(t, 1)[0]
	for name, client := range map[string]func(*testing.T) redis.UniversalClient{
		"single":  func(*testing.T) redis.UniversalClient { return server.Client() },
		"cluster": func(t *testing.T) redis.UniversalClient { return clusterClient(t, cluster) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			looking(t, func(t *testing.T, looks time.Duration) {
				clients := []redis.UniversalClient{client(t), client(t)}
				rig := model.Rig{Patience: 5 * time.Second, Prompt: looks == seldom, Latitude: model.Latitude{Blurred: true, SeparateClaims: name == "cluster"}}
				manyPrograms(t, rig, func(nr int, prefix string) (driver.Store, error) {
					return redisstore.New(clients[nr], redisstore.WithPrefix(prefix+":"), redisstore.WithWaiterLease(looks))
				})
			})
		})
	}
}

// clusterClient takes a server for a part of a cluster, where a script has the keys of one claim only.
func clusterClient(t *testing.T, server *redistest.Server) redis.UniversalClient {
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{server.Addr()}})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// TestDatabasesDoWhatTheModelDoes runs programs on each dialect. With messages, waiters of PostgreSQL
// look so seldom that one which is missing shows. The database remembers nothing of the program before.
func TestDatabasesDoWhatTheModelDoes(t *testing.T) {
	t.Parallel()
	servertest.Long(t)
	for name, test := range map[string]struct {
		dialect  sqlstore.Dialect
		database func(testing.TB) *sqltest.Database
		messages bool
	}{
		"postgres":                {sqlstore.Postgres, sqltest.Postgres, false},
		"postgres, with messages": {sqlstore.Postgres, sqltest.Postgres, true},
		"mariadb":                 {sqlstore.MySQL, sqltest.MySQL, false},
		"sqlite":                  {sqlstore.SQLite, sqltest.SQLite, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := test.database(t)
			pools := []*sql.DB{d.Open(t), d.Open(t)}
			must(t, sqlstore.Migrate(t.Context(), pools[0], test.dialect))
			rig := model.Rig{Patience: 5 * time.Second, Prompt: test.messages, Latitude: model.Latitude{Blurred: true}}
			manyPrograms(t, rig, func(nr int, _ string) (driver.Store, error) {
				for _, table := range []string{"lock", "member", "record", "forced", "version"} {
					if _, err := pools[0].Exec("DELETE FROM keyturn_" + table); err != nil {
						return nil, err
					}
				}
				silent := sqlstore.WithLogger(slog.New(slog.DiscardHandler)) // the servers don't wait for the disk
				opts := []sqlstore.Option{silent, sqlstore.WithPoll(10 * time.Millisecond), sqlstore.WithWaiterLease(often)}
				if test.messages {
					listener, err := pgwake.Dial(t.Context(), d.DSN())
					if err != nil {
						return nil, err
					}
					opts = []sqlstore.Option{silent, sqlstore.WithPoll(time.Minute), sqlstore.WithWaiterLease(seldom), sqlstore.WithWaker(listener)}
				}
				return sqlstore.New(t.Context(), pools[nr], test.dialect, opts...)
			})
		})
	}
}

// TestEtcdDoesWhatTheModelDoes: leases are whole seconds there, so a program that lets them run out
// takes long. The others make waiters look so seldom that a watch that missed something shows.
func TestEtcdDoesWhatTheModelDoes(t *testing.T) {
	t.Parallel()
	servertest.Long(t)
	server := etcdtest.Start(t)
	looking(t, func(t *testing.T, looks time.Duration) {
		var clients []*clientv3.Client
		for range 2 {
			c, err := clientv3.New(clientv3.Config{Endpoints: []string{server.Addr()}, Logger: zap.NewNop()})
			must(t, err)
			defer c.Close()
			clients = append(clients, c)
		}
		manyPrograms(t, model.Rig{Patience: 10 * time.Second, Prompt: looks == seldom}, func(nr int, prefix string) (driver.Store, error) {
			return etcdstore.New(t.Context(), clients[nr], etcdstore.WithPrefix(prefix+"/"), etcdstore.WithWaiterLease(max(looks, 2*time.Second)))
		})
	})
}

// TestZooKeeperDoesWhatTheModelDoes: with long sessions, waiters look so seldom that a message which is missing
// shows.
func TestZooKeeperDoesWhatTheModelDoes(t *testing.T) {
	t.Parallel()
	servertest.Long(t)
	server := zktest.Start(t, "maxSessionTimeout=600000")
	looking(t, func(t *testing.T, looks time.Duration) {
		manyPrograms(t, model.Rig{Patience: 5 * time.Second, Prompt: looks == seldom}, func(_ int, prefix string) (driver.Store, error) {
			return zkstore.New(t.Context(), []string{server.Addr()}, zkstore.WithRoot("/"+prefix), zkstore.WithSession(looks),
				zkstore.WithLogger(slog.New(slog.DiscardHandler)))
		})
	})
}
