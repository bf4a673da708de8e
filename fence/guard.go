package fence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// Tx is a transaction of the caller's: *sql.Tx, *sqlx.Tx, the Tx inside of a bun.Tx or, within a
// transaction, GORM's tx.Statement.ConnPool. A *sql.Conn on which BEGIN was sent is one, too.
type Tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Guard checks, locks and marks in one transaction. What it does ends, or becomes visible, with
// that transaction. Like the transaction, it is for one goroutine at a time. Make one with [On].
//
// An error of its methods leaves the transaction as the database leaves it: PostgreSQL refuses
// all further statements. So roll back after any error except [ErrLocked].
type Guard struct {
	tx      Tx
	dialect Dialect
	config
	err error // what was wrong with On's arguments
}

// On returns a guard on tx, in that dialect. It does no I/O.
//
// Every method fails with [ErrNoTransaction] if tx is a pool of connections: *sql.DB, *sqlx.DB,
// *bun.DB, or GORM's ConnPool outside of a transaction. Every method fails with
// core.ErrInvalidOption if an argument is wrong.
func On(tx Tx, d Dialect, opts ...Option) *Guard {
	c, err := configure(opts)
	return &Guard{tx: tx, dialect: d, config: c, err: errors.Join(transaction(tx), d.validate(), err)}
}

// transaction refuses what runs each statement on any connection.
func transaction(tx Tx) error {
	if tx == nil {
		return fmt.Errorf("%w: it is nil", ErrNoTransaction)
	}
	_, pool := tx.(interface{ Stats() sql.DBStats })
	// GORM caches prepared statements in a wrapper of its own, for pools and for transactions.
	_, wrapper := tx.(interface{ GetDBConn() (*sql.DB, error) })
	_, ends := tx.(interface{ Commit() error })
	if pool || wrapper && !ends {
		return fmt.Errorf("%w: a %T runs each statement on its own", ErrNoTransaction, tx)
	}
	return nil
}

// table is the quoted name of one of the package's tables.
func (c config) table(d Dialect, name string) string { return d.quote(c.prefix + name) }

// exec runs a statement. %s in it is the quoted name of the table. It returns how many rows the
// database counted.
func (g *Guard) exec(ctx context.Context, statement, table string, args ...any) (int64, error) {
	res, err := g.tx.ExecContext(ctx, g.dialect.bind(fmt.Sprintf(statement, table)), args...)
	if err != nil {
		return 0, explain(err)
	}
	n, err := res.RowsAffected()
	return n, explain(err)
}

// row reads one row. sql.ErrNoRows if there is none.
func (g *Guard) row(ctx context.Context, query, table string, args []any, dest ...any) error {
	return explain(g.tx.QueryRowContext(ctx, g.dialect.bind(fmt.Sprintf(query, table)), args...).Scan(dest...))
}
