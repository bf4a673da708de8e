package lock

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// hand is a lock that a program would write by hand. None has a queue, tokens of its own, or renewals.
type hand struct {
	name  string
	kinds []string // of the databases that it works on
	// take tries once, or waits for the database's own lock; a nil release says that the key is held.
	take func(ctx context.Context, h *handLock, key string) (release Unlock, err error)
}

var byHand = []hand{
	{
		"insert-delete",
		[]string{Postgres, MariaDB, SQLite},
		func(ctx context.Context, h *handLock, key string) (Unlock, error) {
			insert := "INSERT INTO hand (k, owner) VALUES (?, 'me') ON CONFLICT DO NOTHING"
			if h.kind == MariaDB {
				insert = "INSERT IGNORE INTO hand (k, owner) VALUES (?, 'me')"
			}
			return h.row(ctx, insert, "DELETE FROM hand WHERE k = ? AND owner = 'me'", key)
		},
	},
	{ // the method of ShedLock: a row with an end, by the database's clock
		"row-with-end",
		[]string{Postgres},
		func(ctx context.Context, h *handLock, key string) (Unlock, error) {
			return h.row(ctx, `INSERT INTO hand (k, owner, until) VALUES (?, 'me', extract(epoch FROM clock_timestamp())+60)
				ON CONFLICT (k) DO UPDATE SET owner = excluded.owner, until = excluded.until WHERE hand.until <= extract(epoch FROM clock_timestamp())`,
				"UPDATE hand SET until = extract(epoch FROM clock_timestamp()) WHERE k = ? AND owner = 'me'", key)
		},
	},
	{"version", []string{Postgres}, takeVersion},
	{
		"for-update",
		[]string{Postgres, MariaDB},
		func(ctx context.Context, h *handLock, key string) (Unlock, error) {
			tx, err := h.db.BeginTx(context.WithoutCancel(ctx), nil)
			if err != nil {
				return nil, err
			}
			err = tx.QueryRowContext(ctx, h.bind("SELECT 1 FROM hand WHERE k = ? FOR UPDATE"), key).Scan(new(int))
			if err == nil {
				return func(context.Context) error { return tx.Commit() }, nil
			}
			_ = tx.Rollback() // before another connection is needed
			if errors.Is(err, sql.ErrNoRows) {
				_, err = h.db.ExecContext(ctx, h.bind("INSERT INTO hand (k) VALUES (?)"), key)
			}
			return nil, err
		},
	},
	{
		"advisory",
		[]string{Postgres},
		func(ctx context.Context, h *handLock, key string) (Unlock, error) {
			conn, err := h.db.Conn(ctx)
			if err != nil {
				return nil, err
			}
			if _, err := conn.ExecContext(ctx, "SELECT pg_advisory_lock(hashtext($1))", key); err != nil {
				return nil, errors.Join(err, conn.Close())
			}
			return func(ctx context.Context) error {
				_, err := conn.ExecContext(ctx, "SELECT pg_advisory_unlock(hashtext($1))", key)
				return errors.Join(err, conn.Close())
			}, nil
		},
	},
}

// takeVersion is the method of pglock: a version from a sequence, in a serializable transaction. It
// takes the row if it has no version. A transaction that the database refuses counts as held.
func takeVersion(ctx context.Context, h *handLock, key string) (Unlock, error) {
	tx, err := h.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelSerializable})
	if err != nil {
		return nil, err
	}
	defer tx.Rollback()
	var version, now sql.NullInt64
	if err := tx.QueryRowContext(ctx, "SELECT nextval('hand_versions')").Scan(&version); err != nil {
		return nil, err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO hand (k, owner, version) VALUES ($1, 'me', $2)
		ON CONFLICT (k) DO UPDATE SET owner = excluded.owner, version = excluded.version WHERE hand.version IS NULL`, key, version)
	if err == nil {
		err = tx.QueryRowContext(ctx, "SELECT version FROM hand WHERE k = $1", key).Scan(&now)
	}
	if err == nil && now == version {
		err = tx.Commit()
	}
	var state interface{ SQLState() string }
	switch {
	case errors.As(err, &state) && state.SQLState() == "40001":
		return nil, nil
	case err != nil || now != version:
		return nil, err
	}
	return func(ctx context.Context) error {
		return h.changeOne(ctx, "UPDATE hand SET version = NULL WHERE k = ? AND version = ?", key, version.Int64)
	}, nil
}

// handLock is a lock by hand in a database.
type handLock struct {
	hand
	db   *sql.DB
	kind string
}

func openByHand(ctx context.Context, cfg Config, db *sql.DB) (*Locker, error) {
	kind := cfg.Database.Kind
	i := slices.IndexFunc(byHand, func(h hand) bool { return h.name == cfg.System && slices.Contains(h.kinds, kind) })
	if i < 0 {
		return nil, fmt.Errorf("nobody locks in %s by %q", kind, cfg.System)
	}
	_, err := db.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS hand (k varchar(100) PRIMARY KEY, owner varchar(100), until bigint, version bigint)")
	if err == nil && kind == Postgres {
		_, err = db.ExecContext(ctx, "CREATE SEQUENCE IF NOT EXISTS hand_versions")
	}
	h := &handLock{hand: byHand[i], db: db, kind: kind}
	return &Locker{Lock: h.lock, Close: db.Close}, err
}

// retry is how long a waiter sleeps before it tries again.
const retry = 20 * time.Millisecond

// lock tries until it has the key.
func (h *handLock) lock(ctx context.Context, key string) (Unlock, error) {
	for {
		release, err := h.take(ctx, h, key)
		if release != nil || err != nil {
			return release, err
		}
		select {
		case <-time.After(retry):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// row takes a key by a statement that then changes one row, and releases it by another.
func (h *handLock) row(ctx context.Context, take, release, key string) (Unlock, error) {
	if n, err := h.change(ctx, take, key); err != nil || n != 1 {
		return nil, err
	}
	return func(ctx context.Context) error { return h.changeOne(ctx, release, key) }, nil
}

func (h *handLock) change(ctx context.Context, statement string, args ...any) (int64, error) {
	res, err := h.db.ExecContext(ctx, h.bind(statement), args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// changeOne runs a statement that has to change one row.
func (h *handLock) changeOne(ctx context.Context, statement string, args ...any) error {
	if n, err := h.change(ctx, statement, args...); n != 1 || err != nil {
		return fmt.Errorf("%s: %d rows, %w", statement, n, err)
	}
	return nil
}

// bind numbers the placeholders where PostgreSQL wants that.
func (h *handLock) bind(statement string) string {
	for n := 1; h.kind == Postgres && strings.Contains(statement, "?"); n++ {
		statement = strings.Replace(statement, "?", fmt.Sprint("$", n), 1)
	}
	return statement
}
