package fencetest

import (
	"context"
	"database/sql/driver"
)

// watched makes connections that tell before they send a COMMIT, and after they have the answer.
type watched struct {
	driver.Connector
	at func(point string)
}

func (w watched) Connect(ctx context.Context) (driver.Conn, error) {
	inner, err := w.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &conn{fullConn: inner.(fullConn), at: w.at}, nil
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
	at func(point string)
}

func (c *conn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	tx, err := c.fullConn.BeginTx(ctx, opts)
	return &watchedTx{tx, c.at}, err
}

type watchedTx struct {
	driver.Tx
	at func(point string)
}

func (tx *watchedTx) Commit() error {
	tx.at(beforeCommit)
	err := tx.Tx.Commit()
	if err == nil {
		tx.at(afterCommit)
	}
	return err
}
