package fencetest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/keyturn/keyturn/fence"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/internal/sqltest"
	"github.com/keyturn/keyturn/pgx/fencepgx"
)

// pair is a PostgreSQL and a replica that follows it through a network that may fail. The database
// has a table for effects.
type pair struct {
	*database
	replica *sqltest.Server
	network *servertest.Proxy
}

func newPair(t *testing.T) *pair {
	t.Helper()
	primary := sqltest.StartPostgres(t)
	p := &pair{database: newDatabase(t, fence.Postgres, primary.Database(t), sql.LevelDefault), network: servertest.NewProxy(t, primary.Addr())}
	p.run(t, `CREATE TABLE effect (id VARCHAR(20))`)
	p.replica = primary.Replica(t, p.network.Addr())
	p.replica.CaughtUp(t, primary)
	return p
}

// dsn names both servers. Clients use the one that takes writes.
func (p *pair) dsn() string {
	return p.DSNAt(p.Server.Addr()+","+p.replica.Addr()) + "&target_session_attrs=read-write"
}

// fail ends the primary, makes a primary of the replica, and returns it.
func (p *pair) fail(t *testing.T) *database {
	t.Helper()
	p.Server.Kill()
	p.replica.Promote(t)
	return &database{Database: p.Database, DB: p.OpenAt(t, p.replica.Addr()), dialect: fence.Postgres}
}

// With a synchronous replica nobody is told of an effect that a failover could forget, also if the
// caller gives up the wait: the COMMIT goes on waiting.
func TestSynchronousFailover(t *testing.T) {
	t.Parallel()
	servertest.Long(t)
	p := newPair(t)
	p.Server.Synchronous(t)
	db, err := sql.Open(p.Database.Driver, p.dsn())
	must(t, err)
	defer db.Close()
	pool, err := pgxpool.New(bounded(t), p.dsn())
	must(t, err)
	defer pool.Close()
	const insert = `INSERT INTO effect VALUES ($1)`
	ways := map[string]func(ctx context.Context) error{
		"sql": func(ctx context.Context) error {
			_, err := fence.Once(ctx, db, fence.Postgres, "sql", func(ctx context.Context, tx *sql.Tx) ([]byte, error) {
				_, err := tx.ExecContext(ctx, insert, "sql")
				return nil, err
			})
			return err
		},
		"pgx": func(ctx context.Context) error {
			_, err := fencepgx.Once(ctx, pool, "pgx", func(ctx context.Context, tx pgx.Tx) ([]byte, error) {
				_, err := tx.Exec(ctx, insert, "pgx")
				return nil, err
			})
			return err
		},
	}
	p.network.Cut()
	var all sync.WaitGroup
	for name, once := range ways {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(bounded(t), endTimeout+1500*time.Millisecond) // time for a second try
			defer cancel()
			if err := once(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s, without the replica: %v", name, err)
			}
		})
	}
	all.Wait()
	now := p.fail(t)
	for name, once := range ways {
		for range 3 { // the pool may have connections to the old primary
			if err = once(bounded(t)); err == nil {
				break
			}
		}
		n := now.number(t, `SELECT count(*) FROM effect WHERE id = '`+name+`'`)
		check(t, n == 1 && err == nil, "%s: %d effects, %v", name, n, err)
	}
}

// endTimeout is for how long Once waits for the answer to a COMMIT.
const endTimeout = 5 * time.Second

// Behind a pgbouncer that gives a connection to each transaction, nothing of a session survives.
// pgx must not use prepared statements there.
func TestBehindPgbouncer(t *testing.T) {
	db := newDatabase(t, fence.Postgres, open(t, fence.Postgres), sql.LevelDefault)
	db.run(t, `CREATE TABLE effect (n INT)`)
	bouncer := db.Bouncer(t, "default_pool_size = 2")
	pool, err := sql.Open(db.Database.Driver, db.DSNAt(bouncer.Addr())+"&default_query_exec_mode=exec")
	must(t, err)
	defer pool.Close()
	far := &database{Database: db.Database, DB: pool, dialect: db.dialect}
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for n := range 5 {
				_, err := far.once(t, fmt.Sprint("message", n), func(ctx context.Context, tx *sql.Tx) ([]byte, error) {
					g := fence.On(tx, db.dialect)
					if err := errors.Join(g.Check(ctx, "r", uint64(1+worker)), g.Lock(ctx, "name", fence.WithAdvisory())); errors.Is(err, fence.ErrStale) {
						return nil, insert(ctx) // that is the right answer, too
					} else if err != nil {
						return nil, err
					}
					return nil, errors.Join(g.Lock(ctx, "name", fence.Within(20*time.Second)), insert(ctx))
				}, fence.WithAttempts(100))
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	db.hasEffects(t, 5)
	var got string
	must(t, far.QueryRowContext(bounded(t), `SHOW lock_timeout`).Scan(&got))
	check(t, got == "0", "lock_timeout %s stays with a connection", got)
	must(t, second(fence.Sweep(bounded(t), pool, db.dialect, time.Hour)))
}
