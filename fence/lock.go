package fence

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
)

// LockOption configures [Guard.Lock].
type LockOption interface {
	apply(*config) error
	applyLock(*config) error
}

// NoWait refuses a lock that another transaction has, with [ErrLocked]. It replaces [Within].
func NoWait() LockOption {
	return setting(func(c *config) error {
		c.noWait, c.within = true, 0
		return nil
	})
}

// Within waits for at most d, then refuses with [ErrLocked]. On MySQL and SQLite the wait is a
// repeated try, so others may be served first. On SQLite, each try of Within and [NoWait] sets busy_timeout
// to 0 and back: a connection whose transaction's own context ends in between may keep 0. d must be 1 ms or more, otherwise the option is a
// *core.OptionError. Default: as long as the context, and as the database's own settings
// (lock_timeout, innodb_lock_wait_timeout, busy_timeout) allow.
func Within(d time.Duration) LockOption {
	return setting(func(c *config) error {
		c.noWait, c.within = false, d
		return driver.CheckOption(d >= time.Millisecond, "Within", d, "1ms or more")
	})
}

// WithAdvisory takes PostgreSQL's advisory lock on a hash of the name instead of a row's lock. It
// needs no table. It is bound to the transaction, so it works behind a pooler. Two names may
// have the same hash, so a transaction that takes several locks may deadlock ([ErrRetry]). On
// other databases the error matches errors.ErrUnsupported.
func WithAdvisory() LockOption {
	return setting(func(c *config) error {
		c.advisory = true
		return nil
	})
}

// Lock takes a lock on name, of 1 to 512 bytes, and waits until it has it. The lock ends with the
// transaction, so there is nothing to renew and nothing to lose. It excludes other transactions
// that lock the same name. A transaction may lock a name again.
//
// Transactions that take several locks in different orders deadlock. The database then ends one
// of them with [ErrRetry], as it does if its own timeout for locks is over. SQLite has one lock
// for the whole database: there the wait is for every transaction that writes.
//
// [ErrLocked] leaves the transaction as it was, except on MariaDB with
// innodb_rollback_on_timeout. On MySQL itself, a name that nobody has ever locked may wait in
// spite of NoWait, if another transaction is just doing so. Other errors: core.ErrInvalidKey,
// core.ErrInvalidOption.
func (g *Guard) Lock(ctx context.Context, name string, opts ...LockOption) error {
	c, err := configure(opts)
	if c.advisory && g.dialect != Postgres {
		err = errors.Join(err, fmt.Errorf("keyturn: advisory locks on %v: %w", g.dialect, errors.ErrUnsupported))
	}
	if err := errors.Join(g.err, validID(name), err); err != nil {
		return err
	}
	l := locking{Guard: g, name: name, advisory: c.advisory}
	switch {
	case !c.noWait && c.within == 0:
		err = l.take(ctx)
	case g.dialect == Postgres:
		err = l.boundedPostgres(ctx, max(c.within, time.Millisecond)) // 0 would be no bound
	case g.dialect == MySQL:
		err = again(ctx, c.within, l.tryMySQL)
	default:
		err = again(ctx, c.within, l.trySQLite)
	}
	if err != nil {
		return fmt.Errorf("keyturn: lock %q: %w", name, err)
	}
	return nil
}

// LockAny takes a lock on the first of names that no other transaction has locked, and returns it.
// It is for workers that share a few partitions, or slots. [ErrLocked] if all are locked.
// Without a name, the error matches core.ErrInvalidOption.
func (g *Guard) LockAny(ctx context.Context, names ...string) (string, error) {
	if len(names) == 0 {
		return "", errors.Join(g.err, &core.OptionError{Option: "LockAny", Value: nil, Want: "a name"})
	}
	for _, name := range names {
		if err := g.Lock(ctx, name, NoWait()); err == nil || !errors.Is(err, ErrLocked) {
			return name, err
		}
	}
	return "", fmt.Errorf("keyturn: lock one of %d names: %w", len(names), ErrLocked)
}

// locking is a lock that is being taken.
type locking struct {
	*Guard
	name     string
	advisory bool
}

// lockNoted is how long a row's time may be out of date, so that few locks write anything.
const lockNoted = time.Hour

// take waits for the lock. One statement inserts the row and locks it, or locks the row that is
// there. A SELECT ... FOR UPDATE would find no row that Sweep has just deleted, and on MySQL it
// would lock a gap, into which two transactions cannot both insert.
func (l *locking) take(ctx context.Context) error {
	if l.advisory {
		_, err := l.tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", l.hash())
		return explain(err)
	}
	_, err := l.insert(ctx, "")
	return err
}

// hash is the number of an advisory lock. The prefix of the tables keeps programs apart that
// share a database.
func (l *locking) hash() int64 {
	sum := sha256.Sum256([]byte(l.prefix + "\x00" + l.name))
	return int64(binary.BigEndian.Uint64(sum[:]))
}

func (l *locking) insert(ctx context.Context, prefix string) (int64, error) {
	statement := fmt.Sprintf(`INSERT INTO %%s AS r (name, at) VALUES (?, %s)
		ON CONFLICT (name) DO UPDATE SET at = excluded.at WHERE r.at < excluded.at - %d`, l.dialect.now(), lockNoted.Milliseconds())
	if l.dialect == MySQL {
		statement = fmt.Sprintf(`%sINSERT INTO %%s (name, at) VALUES (?, %s)
			ON DUPLICATE KEY UPDATE at = IF(at < VALUES(at) - %d, VALUES(at), at)`, prefix, l.dialect.now(), lockNoted.Milliseconds())
	}
	return l.exec(ctx, statement, l.table(l.dialect, "row"), []byte(l.name))
}

// boundedPostgres bounds the wait with lock_timeout, for this one statement. An error would end
// the whole transaction, so there is a savepoint around it. Rolling back to the savepoint also
// restores the setting. The transaction may go on after the end of ctx, so that does not stop what
// puts it right.
func (l *locking) boundedPostgres(ctx context.Context, d time.Duration) error {
	run := func(ctx context.Context, statement string, args ...any) error {
		_, err := l.tx.Exec(ctx, statement, args...)
		return explain(err)
	}
	const restore = "SELECT set_config('lock_timeout', $1, true)"
	var before string
	if err := l.tx.QueryRow(ctx, "SELECT current_setting('lock_timeout')", nil, &before); err != nil {
		return explain(err)
	}
	if err := run(ctx, "SAVEPOINT keyturn_lock"); err != nil {
		return err
	}
	if err := run(ctx, restore, fmt.Sprintf("%dms", min(d.Milliseconds(), math.MaxInt32))); err != nil {
		return err
	}
	err := l.take(ctx)
	ctx, cancel := ending(ctx)
	defer cancel()
	switch {
	case err == nil:
		return errors.Join(run(ctx, restore, before), run(ctx, "RELEASE SAVEPOINT keyturn_lock"))
	case codeIn(err) != "55P03":
		return err
	}
	if wrong := errors.Join(run(ctx, "ROLLBACK TO SAVEPOINT keyturn_lock"), run(ctx, "RELEASE SAVEPOINT keyturn_lock")); wrong != nil {
		return errors.Join(err, wrong)
	}
	return ErrLocked
}

// tryMySQL takes the lock of a row that exists, or inserts one. MariaDB reads what stands in
// /*M!...*/. Its INSERT does not wait, so it does both. A SELECT that finds no row would lock a gap,
// and no other transaction could insert there.
func (l *locking) tryMySQL(ctx context.Context) error {
	var at int64
	err := l.row(ctx, `SELECT at FROM %s WHERE name = ? /*M!100100 AND FALSE */ FOR UPDATE NOWAIT`, l.table(l.dialect, "row"), []any{[]byte(l.name)}, &at)
	if errors.Is(err, sql.ErrNoRows) {
		_, err = l.insert(ctx, "/*M!100100 SET STATEMENT innodb_lock_wait_timeout=0 FOR */ ")
	}
	if code := codeIn(err); code == mysqlCode+"3572" || code == mysqlCode+"1205" {
		return ErrLocked
	}
	return err
}

// trySQLite takes the lock without a wait. busy_timeout belongs to the connection, so no wait ever
// finds it changed, and the end of ctx does not keep it from being set back: the connection may go
// back into a pool then.
func (l *locking) trySQLite(ctx context.Context) (err error) {
	timeout := func(ctx context.Context, set string) (ms int64, err error) {
		err = l.tx.QueryRow(ctx, "PRAGMA busy_timeout"+set, nil, &ms)
		return ms, err
	}
	before, err := timeout(ctx, "")
	if err != nil {
		return err
	}
	defer func() {
		_, wrong := timeout(context.WithoutCancel(ctx), fmt.Sprintf(" = %d", before))
		err = errors.Join(err, wrong)
	}()
	if _, err := timeout(ctx, " = 0"); err != nil {
		return err
	}
	if err = l.take(ctx); kindOf(err) == kindRetry {
		return ErrLocked
	}
	return err
}
