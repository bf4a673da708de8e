package fencepgx

import (
	"context"
	"database/sql"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/keyturn/keyturn/fence"
)

// poolOfPgx is a pool for package fence.
type poolOfPgx struct{ pool *pgxpool.Pool }

// through returns nil for a nil pool.
func through(pool *pgxpool.Pool) fence.Pool {
	if pool == nil {
		return nil
	}
	return poolOfPgx{pool}
}

func (p poolOfPgx) Exec(ctx context.Context, statement string, args ...any) (int64, error) {
	tag, err := p.pool.Exec(ctx, statement, args...)
	return tag.RowsAffected(), err
}

// levels has all that the options of fence let through.
var levels = map[sql.IsolationLevel]pgx.TxIsoLevel{
	sql.LevelDefault:         "",
	sql.LevelReadUncommitted: pgx.ReadUncommitted,
	sql.LevelReadCommitted:   pgx.ReadCommitted,
	sql.LevelRepeatableRead:  pgx.RepeatableRead,
	sql.LevelSerializable:    pgx.Serializable,
}

func (p poolOfPgx) Begin(ctx context.Context, level sql.IsolationLevel) (fence.Transaction, error) {
	// A server that restarts ends all connections of the pool.
	for old := p.pool.Stat().TotalConns(); ; old-- {
		t, stale, err := p.begin(ctx, levels[level])
		switch {
		case err == nil:
			return t, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case !stale || old <= 0:
			return nil, err
		}
	}
}

// begin tries one connection. stale: it was closed before, by the server.
func (p poolOfPgx) begin(ctx context.Context, level pgx.TxIsoLevel) (t *transaction, stale bool, err error) {
	conn, err := p.pool.Acquire(ctx)
	if err != nil {
		return nil, false, err
	}
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: level})
	if err != nil {
		stale = conn.Conn().IsClosed()
		conn.Release()
		return nil, stale, err
	}
	return &transaction{statements{tx}, conn}, false, nil
}

// transaction is one that a pool has begun. pgx ties each statement to its own context, and not the
// transaction to that of its BEGIN.
type transaction struct {
	statements
	conn *pgxpool.Conn
}

func (t *transaction) In(ctx context.Context) context.Context {
	return context.WithValue(ctx, txKey{}, t.tx)
}

func (t *transaction) Commit(ctx context.Context) error { return done(t.tx.Commit(ctx)) }

func (t *transaction) End(ctx context.Context, drop bool) {
	_ = t.tx.Rollback(ctx) // after a COMMIT it does nothing; if it fails, pgx closes the connection
	if drop {
		_ = t.conn.Conn().Close(ctx)
	}
	t.conn.Release()
}
