package scenario

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/sqltest"
	"github.com/keyturn/keyturn/proof/bench/lock"
)

// OnCluster says that a scenario is measured on a Redis Cluster.
const OnCluster = "cluster"

// masters is the number of masters of the Cluster. They share this machine's processors, so
// more of them would only be slower.
const masters = 3

// Env has the servers of a benchmark, which are those of the tests. Each is started by the first
// scenario that needs it.
type Env struct {
	size      Size
	run       redistest.Run
	redis     map[string][]*redis.Client // by [Scenario.On]
	databases map[string]*sqltest.Server
}

// NewEnv makes one that has no servers yet.
func NewEnv(size Size) *Env {
	return &Env{size: size, redis: make(map[string][]*redis.Client), databases: make(map[string]*sqltest.Server)}
}

// Close ends the servers.
func (e *Env) Close() error { return e.run.End() }

// place is where a measurement runs: on empty servers, so that no run pays for what another one left.
type place struct {
	size     Size
	servers  []*redis.Client // of the server, or of the Cluster's masters
	database *lock.Database  // or an empty database
}

// place empties the servers, or makes a database, which leave drops.
func (e *Env) place(ctx context.Context, on string) (p *place, leave func() error, err error) {
	p, one := &place{size: e.size}, &redistest.Run{}
	leave = func() (err error) {
		failed := one.Catch(func() { err = one.End() }) // dropping a database may fail
		return errors.Join(err, failed)
	}
	err = one.Try(func() {
		if on == "" || on == OnCluster {
			p.servers = e.onRedis(on)
			return
		}
		d := e.onDatabase(one, on)
		p.database = &lock.Database{Kind: d.Kind, Driver: d.Driver, DSN: d.DSN()}
	})
	for _, server := range p.servers {
		err = errors.Join(err, server.FlushAll(ctx).Err())
	}
	return p, leave, err
}

func (e *Env) onRedis(on string) []*redis.Client {
	if e.redis[on] == nil {
		var servers []*redistest.Server
		if on == OnCluster {
			servers = redistest.StartCluster(&e.run, masters)
		} else {
			servers = append(servers, redistest.Start(&e.run))
		}
		for _, server := range servers {
			e.redis[on] = append(e.redis[on], server.Client())
		}
	}
	return e.redis[on]
}

func (e *Env) onDatabase(t testing.TB, kind string) *sqltest.Database {
	start := map[string]func(testing.TB, ...string) *sqltest.Server{lock.Postgres: sqltest.StartPostgres, lock.MariaDB: sqltest.StartMySQL}[kind]
	if start == nil {
		return sqltest.SQLite(t)
	}
	if e.databases[kind] == nil {
		e.databases[kind] = start(&e.run)
	}
	return e.databases[kind].Database(t)
}

// config is that of a system for so many callers.
func (p *place) config(system string, callers int) lock.Config {
	cfg := lock.Config{System: system, Database: p.database, Callers: callers, TTL: 30 * time.Second}
	for _, server := range p.servers {
		cfg.Addrs = append(cfg.Addrs, server.Options().Addr)
	}
	return cfg
}
