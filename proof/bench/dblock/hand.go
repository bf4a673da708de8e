package dblock

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/keyturn/keyturn/proof/bench/lock"
)

// hand is a lock that a program would write by hand. None has a queue, tokens of its own, or renewals.
type hand struct {
	name  string
	kinds map[string][]string // of the databases that it works on, and how its table is made
	// take tries once, or waits for the database's own lock; a nil release says that the key is held.
	take func(ctx context.Context, h *handLock, key string) (release lock.Unlock, err error)
}

var (
	oneRow = "CREATE TABLE IF NOT EXISTS hand (k varchar(100) PRIMARY KEY, owner varchar(100), until bigint, version bigint)"
	byHand = []hand{
		{
			"insert-delete",
			map[string][]string{Postgres: {oneRow}, MariaDB: {oneRow}, SQLite: {oneRow}},
			func(ctx context.Context, h *handLock, key string) (lock.Unlock, error) {
				insert := "INSERT INTO hand (k, owner) VALUES (?, 'me') ON CONFLICT DO NOTHING"
				if h.kind == MariaDB {
					insert = "INSERT IGNORE INTO hand (k, owner) VALUES (?, 'me')"
				}
				return h.if1(ctx, insert, []any{key}, "DELETE FROM hand WHERE k = ? AND owner = 'me'", key)
			},
		},
		{ // the method of ShedLock: a row with an end, by the database's clock
			"row-with-end",
			map[string][]string{Postgres: {oneRow}},
			func(ctx context.Context, h *handLock, key string) (lock.Unlock, error) {
				return h.if1(ctx, `INSERT INTO hand (k, owner, until) VALUES (?, 'me', extract(epoch FROM clock_timestamp())+60)
					ON CONFLICT (k) DO UPDATE SET owner = excluded.owner, until = excluded.until WHERE hand.until <= extract(epoch FROM clock_timestamp())`, []any{key},
					"UPDATE hand SET until = extract(epoch FROM clock_timestamp()) WHERE k = ? AND owner = 'me'", key)
			},
		},
		{ // the method of pglock: a version from a sequence, in a serializable transaction
			"version",
			map[string][]string{Postgres: {oneRow, "CREATE SEQUENCE IF NOT EXISTS hand_versions"}},
			takeVersion,
		},
		{
			"for-update",
			map[string][]string{Postgres: {oneRow}, MariaDB: {oneRow}},
			func(ctx context.Context, h *handLock, key string) (lock.Unlock, error) {
				tx, err := h.db.BeginTx(context.WithoutCancel(ctx), nil)
				if err != nil {
					return nil, err
				}
				row := tx.QueryRowContext(ctx, h.bind("SELECT 1 FROM hand WHERE k = ? FOR UPDATE"), key)
				var one int
				err = row.Scan(&one)
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
			map[string][]string{Postgres: {}},
			func(ctx context.Context, h *handLock, key string) (lock.Unlock, error) {
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
)

// takeVersion takes the row if it has no version. A serializable transaction that the database refuses
// counts as held.
func takeVersion(ctx context.Context, h *handLock, key string) (lock.Unlock, error) {
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
		return h.one(ctx, "UPDATE hand SET version = NULL WHERE k = ? AND version = ?", key, version.Int64)
	}, nil
}

// handLock is a lock by hand in a database.
type handLock struct {
	hand
	db   *sql.DB
	kind string
}

// retry is how long a waiter sleeps before it tries again.
const retry = 20 * time.Millisecond

// Lock tries until it has the key.
func (h *handLock) Lock(ctx context.Context, key string) (lock.Unlock, error) {
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

// Once is not measured.
func (h *handLock) Once(context.Context, string, func()) error { return errors.ErrUnsupported }

func (h *handLock) Close() error { return h.db.Close() }

// bind numbers the placeholders where PostgreSQL wants that.
func (h *handLock) bind(statement string) string {
	for n := 1; h.kind == Postgres && strings.Contains(statement, "?"); n++ {
		statement = strings.Replace(statement, "?", fmt.Sprint("$", n), 1)
	}
	return statement
}

// if1 takes a key by a statement that then changes one row, and releases it by another.
func (h *handLock) if1(ctx context.Context, take string, args []any, release string, more ...any) (lock.Unlock, error) {
	n, err := h.exec(ctx, take, args)
	if err != nil || n != 1 {
		return nil, err
	}
	return func(ctx context.Context) error { return h.one(ctx, release, more...) }, nil
}

func (h *handLock) exec(ctx context.Context, statement string, args []any) (int64, error) {
	res, err := h.db.ExecContext(ctx, h.bind(statement), args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// one runs a statement that has to change one row.
func (h *handLock) one(ctx context.Context, statement string, args ...any) error {
	if n, err := h.exec(ctx, statement, args); n != 1 || err != nil {
		return fmt.Errorf("%s: %d rows, %w", statement, n, err)
	}
	return nil
}
