package lock

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"

	"github.com/keyturn/keyturn/pgx/pgwake"
	_ "github.com/keyturn/keyturn/proof/drivers"
	"github.com/keyturn/keyturn/store/sqlstore"
)

// The kinds of databases.
const (
	Postgres = "postgres"
	MariaDB  = "mysql"
	SQLite   = "sqlite"
)

// withMessages is keyturn with messages of PostgreSQL.
const withMessages = "keyturn+messages"

// Database is a database to lock in.
type Database struct{ Kind, Driver, DSN string }

// Ways returns the names of the ways to lock in a kind of database, keyturn's first.
func Ways(kind string) []string {
	names := []string{"keyturn"}
	if kind == Postgres {
		names = append(names, withMessages)
	}
	for _, h := range byHand {
		if slices.Contains(h.kinds, kind) {
			names = append(names, h.name)
		}
	}
	return names
}

// databaseConns is how many connections each way may use.
const databaseConns = 5

// Pool opens a pool whose connections stay. A SQLite file waits for the disk, as it does by default; the
// servers of the benchmark don't.
func (d *Database) Pool() (*sql.DB, error) {
	db, err := sql.Open(d.Driver, strings.Replace(d.DSN, "synchronous(off)", "synchronous(full)", 1))
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(databaseConns)
	db.SetMaxIdleConns(databaseConns)
	return db, nil
}

// openDatabase opens a way to lock in a database, and makes the tables.
func openDatabase(ctx context.Context, cfg Config) (*Locker, error) {
	db, err := cfg.Database.Pool()
	if err != nil {
		return nil, err
	}
	open := openByHand
	if cfg.System == "keyturn" || cfg.System == withMessages {
		open = openSQLStore
	}
	l, err := open(ctx, cfg, db)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return l, nil
}

var dialects = map[string]sqlstore.Dialect{Postgres: sqlstore.Postgres, MariaDB: sqlstore.MySQL, SQLite: sqlstore.SQLite}

// openSQLStore opens an engine over sqlstore with its defaults.
func openSQLStore(ctx context.Context, cfg Config, db *sql.DB) (*Locker, error) {
	dialect := dialects[cfg.Database.Kind]
	if err := sqlstore.Migrate(ctx, db, dialect); err != nil {
		return nil, err
	}
	opts := []sqlstore.Option{sqlstore.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil)))} // the servers don't wait for the disk
	if cfg.System == withMessages {
		listener, err := pgwake.Dial(ctx, cfg.Database.DSN)
		if err != nil {
			return nil, err
		}
		opts = append(opts, sqlstore.WithWaker(listener))
	}
	store, err := sqlstore.New(ctx, db, dialect, opts...)
	if err != nil {
		return nil, err
	}
	return engineOver(store, cfg.TTL, db.Close)
}
