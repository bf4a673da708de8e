package sqlstore

import (
	"database/sql"
	"sync/atomic"

	"github.com/keyturn/keyturn/store/storeurl"
)

// Client is what a client library of PostgreSQL can do for a store. Package pgwake registers one when it
// is imported, because this package imports no client library.
type Client struct {
	// Listen makes a waker for a DSN of the form key='value'. It does not wait for the server.
	Listen func(dsn string) (Waker, error)
	// Open makes a pool for such a DSN, whose connections Warned understands.
	Open func(dsn string) (*sql.DB, error)
	// Warned reports whether the server has warned since the last call that a commit did not wait for its
	// replica. It gets a connection of the driver, which may be another client's.
	Warned func(conn any) bool
	// Sees reports whether Warned understands a connection.
	Sees func(conn any) bool
}

// linked is the registered client; nil: there is none.
var linked atomic.Pointer[Client]

// RegisterClient makes c that of all stores that are opened later. It panics if there is one already.
func RegisterClient(c Client) {
	if !linked.CompareAndSwap(nil, &c) {
		panic("sqlstore: RegisterClient for the second time")
	}
}

const pgwake = "github.com/keyturn/keyturn/pgx/pgwake"

// wakes reads the parameter waker: whether the store gets messages, which it does if it can.
func wakes(p *storeurl.Params) (bool, error) {
	mode, given := p.OneOf("waker", "on", "off")
	if linked.Load() == nil && mode == "on" {
		return false, &storeurl.ParamError{Name: "waker", Want: "off, or a program that imports " + pgwake}
	}
	return mode == "on" || !given && linked.Load() != nil, nil
}
