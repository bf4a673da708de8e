// Package dblock has ways to lock in a database: keyturn's, and what a program would write by hand. All
// of them are behind the interface of the lock libraries for Redis.
package dblock

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/sqltest"
	"github.com/keyturn/keyturn/pgx/pgwake"
	"github.com/keyturn/keyturn/proof/bench/lock"
	_ "github.com/keyturn/keyturn/proof/drivers"
	"github.com/keyturn/keyturn/store/sqlstore"
)

// The kinds of databases.
const (
	Postgres = "postgres"
	MariaDB  = "mysql"
	SQLite   = "sqlite"
)

// Ways returns the names of the ways to lock in a kind of database, keyturn's first.
func Ways(kind string) []string {
	names := []string{"keyturn"}
	if kind == Postgres {
		names = append(names, "keyturn+messages")
	}
	for _, h := range byHand {
		if h.kinds[kind] != nil {
			names = append(names, h.name)
		}
	}
	return names
}

// TTL is that of keyturn's leases.
const TTL = 30 * time.Second

// Conns is how many connections each way may use.
const Conns = 5

// Pool opens a pool whose connections stay. A SQLite file waits for the disk, as it does by default; the
// servers of sqltest don't.
func Pool(d *sqltest.Database) (*sql.DB, error) {
	db, err := sql.Open(d.Driver, strings.Replace(d.DSN(), "synchronous(off)", "synchronous(full)", 1))
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(Conns)
	db.SetMaxIdleConns(Conns)
	return db, nil
}

// Open opens a way to lock in a database, and makes the tables.
func Open(ctx context.Context, way string, d *sqltest.Database) (lock.Locker, error) {
	db, err := Pool(d)
	if err != nil {
		return nil, err
	}
	var l lock.Locker
	if strings.HasPrefix(way, "keyturn") {
		l, err = openKeyturn(ctx, db, d, way != "keyturn")
	} else {
		l, err = openByHand(ctx, way, db, d.Kind)
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return l, nil
}

// keyturn is an engine over sqlstore, with its defaults. It always renews.
type keyturn struct {
	db     *sql.DB
	engine *core.Engine
}

var dialects = map[string]sqlstore.Dialect{Postgres: sqlstore.Postgres, MariaDB: sqlstore.MySQL, SQLite: sqlstore.SQLite}

func openKeyturn(ctx context.Context, db *sql.DB, d *sqltest.Database, messages bool) (lock.Locker, error) {
	dialect := dialects[d.Kind]
	if err := sqlstore.Migrate(ctx, db, dialect); err != nil {
		return nil, err
	}
	opts := []sqlstore.Option{sqlstore.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil)))} // the servers don't wait for the disk
	if messages {
		listener, err := pgwake.Dial(ctx, d.DSN())
		if err != nil {
			return nil, err
		}
		opts = append(opts, sqlstore.WithWaker(listener))
	}
	store, err := sqlstore.New(ctx, db, dialect, opts...)
	if err != nil {
		return nil, err
	}
	engine, err := newEngine(store)
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return &keyturn{db: db, engine: engine}, nil
}

func newEngine(store driver.Store) (*core.Engine, error) {
	return core.New(store, core.WithTTL(TTL), core.WithMaxWait(core.Forever), core.WithMaxHold(core.Forever),
		core.WithMaxWaiters(math.MaxInt32), core.WithMaxWaitersTotal(math.MaxInt32))
}

func (k *keyturn) Lock(ctx context.Context, key string) (lock.Unlock, error) {
	lease, err := k.engine.Acquire(ctx, key)
	if err != nil {
		return nil, err
	}
	return lease.Release, nil
}

func (k *keyturn) Once(ctx context.Context, key string, fn func()) error {
	_, err := k.engine.Once(ctx, key, func(context.Context) ([]byte, error) {
		fn()
		return nil, nil
	})
	return err
}

func (k *keyturn) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return errors.Join(k.engine.Close(ctx), k.db.Close())
}

func openByHand(ctx context.Context, way string, db *sql.DB, kind string) (lock.Locker, error) {
	i := slices.IndexFunc(byHand, func(h hand) bool { return h.name == way })
	if i < 0 || byHand[i].kinds[kind] == nil {
		return nil, fmt.Errorf("nobody locks in %s by %q", kind, way)
	}
	for _, statement := range byHand[i].kinds[kind] {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return nil, err
		}
	}
	return &handLock{db: db, kind: kind, hand: byHand[i]}, nil
}
