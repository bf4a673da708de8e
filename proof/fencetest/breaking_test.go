package fencetest

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"sync/atomic"
	"testing"
)

// breaking is a pool whose connections call beforeCommit right before they send a COMMIT.
type breaking struct {
	*sql.DB
	driver.Connector
	beforeCommit atomic.Pointer[func()] // nil: nothing
	afterCommit  func()                 // nil: nothing
}

// breaking opens the database behind the host:port addr.
func (db *database) breaking(t testing.TB, addr string) *breaking {
	t.Helper()
	c, err := db.DB.Driver().(driver.DriverContext).OpenConnector(db.DSNAt(addr))
	must(t, err)
	b := &breaking{Connector: c}
	b.DB = sql.OpenDB(connector{b})
	t.Cleanup(func() { _ = b.DB.Close() })
	return b
}

func (b *breaking) before(call func()) { b.beforeCommit.Store(&call) }

type connector struct{ pool *breaking }

func (c connector) Driver() driver.Driver { return c.pool.Connector.Driver() }

func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	inner, err := c.pool.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &conn{fullConn: inner.(fullConn), pool: c.pool}, nil
}

// fullConn is what the drivers' connections have in common.
type fullConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.SessionResetter
	driver.Pinger
}

type conn struct {
	fullConn
	pool *breaking
}

func (c *conn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	tx, err := c.fullConn.BeginTx(ctx, opts)
	return &breakingTx{tx, c.pool}, err
}

type breakingTx struct {
	driver.Tx
	pool *breaking
}

func (tx *breakingTx) Commit() error {
	if call := tx.pool.beforeCommit.Load(); call != nil {
		(*call)()
	}
	err := tx.Tx.Commit()
	if tx.pool.afterCommit != nil && err == nil {
		tx.pool.afterCommit()
	}
	return err
}
