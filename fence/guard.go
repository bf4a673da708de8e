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

// Statements runs statements in a transaction of the caller's that is none of database/sql's. Package
// fencepgx has one for pgx.
type Statements interface {
	// Exec runs a statement, and returns how many rows the database counted.
	Exec(ctx context.Context, statement string, args ...any) (rows int64, err error)
	// QueryRow reads one row into dest. Without a row, the error matches sql.ErrNoRows.
	QueryRow(ctx context.Context, query string, args []any, dest ...any) error
}

// Guard checks, locks and marks in one transaction. What it does ends, or becomes visible, with
// that transaction. Like the transaction, it is for one goroutine at a time. Make one with [On] or
// [Through].
//
// An error of its methods leaves the transaction as the database leaves it: PostgreSQL refuses
// all further statements. So roll back after any error except [ErrLocked].
type Guard struct {
	tx      Statements
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
	g := Through(sqlTx{tx}, d, opts...)
	g.err = errors.Join(transaction(tx), g.err)
	return g
}

// Through is [On] for a transaction that is none of database/sql's. All statements of s must be in
// one transaction. Their placeholders are those of the dialect. It does no I/O.
func Through(s Statements, d Dialect, opts ...Option) *Guard {
	c, err := configure(opts)
	if s == nil {
		err = errors.Join(err, fmt.Errorf("%w: it is nil", ErrNoTransaction))
	}
	return &Guard{tx: s, dialect: d, config: c, err: errors.Join(d.validate(), err)}
}

// sqlTx is a transaction of database/sql.
type sqlTx struct{ Tx }

func (t sqlTx) Exec(ctx context.Context, statement string, args ...any) (int64, error) {
	res, err := t.ExecContext(ctx, statement, args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

func (t sqlTx) QueryRow(ctx context.Context, query string, args []any, dest ...any) error {
	return t.QueryRowContext(ctx, query, args...).Scan(dest...)
}

// transaction refuses what runs each statement on any connection.
func transaction(tx Tx) error {
	if tx == nil || tx == Tx((*sql.Tx)(nil)) {
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
	n, err := g.tx.Exec(ctx, g.dialect.bind(fmt.Sprintf(statement, table)), args...)
	return n, explain(err)
}

// row reads one row. sql.ErrNoRows if there is none.
func (g *Guard) row(ctx context.Context, query, table string, args []any, dest ...any) error {
	return explain(g.tx.QueryRow(ctx, g.dialect.bind(fmt.Sprintf(query, table)), args, dest...))
}
