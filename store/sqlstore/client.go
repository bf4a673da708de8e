package sqlstore

import (
	"database/sql"
	"sync"

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

var linked struct {
	sync.RWMutex
	client *Client
}

// RegisterClient makes c that of all stores that are opened later. It panics if there is one already.
func RegisterClient(c Client) {
	linked.Lock()
	defer linked.Unlock()
	if linked.client != nil {
		panic("sqlstore: RegisterClient for the second time")
	}
	linked.client = &c
}

// client returns the registered client; nil: there is none.
func client() *Client {
	linked.RLock()
	defer linked.RUnlock()
	return linked.client
}

const pgwake = "github.com/keyturn/keyturn/pgx/pgwake"

// wakes reads the parameter waker: whether the store gets messages, which it does if it can.
func wakes(p *storeurl.Params) (bool, error) {
	mode, given := p.OneOf("waker", "on", "off")
	if client() == nil && mode == "on" {
		return false, &storeurl.ParamError{Name: "waker", Want: "off, or a program that imports " + pgwake}
	}
	return mode == "on" || !given && client() != nil, nil
}
