package sqltest

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"io"
	"maps"
	"strings"
	"sync"
	"testing"
)

// Faults is a driver whose connections break or wait at a statement that the test has chosen. It also
// counts and records statements. The zero value has no faults yet; a pool of it is made with [Faults.Open].
type Faults struct {
	driver.Connector

	mu    sync.Mutex
	count int
	at    int  // breaks at this statement, counted from 1; 0: never
	after bool // the statement is carried out, and its answer is lost; otherwise it is not sent
	last  string

	recording bool
	sent      map[string][]any // statements, with their last arguments

	hold   func(query string) bool // the next statement like this waits; nil: none
	held   chan struct{}           // closed when it has come; nil: it has
	onward chan struct{}           // closed when it may go on
	all    bool                    // so do all others like this
}

// Open makes a pool of connections that fail as f says, with these parameters added to the DSN.
func (f *Faults) Open(t testing.TB, d *Database, parameters ...string) *sql.DB {
	t.Helper()
	return f.OpenDSN(t, d, d.DSN()+strings.Join(parameters, ""))
}

// OpenDSN is Open for a DSN of the caller's.
func (f *Faults) OpenDSN(t testing.TB, d *Database, dsn string) *sql.DB {
	t.Helper()
	var err error
	f.Connector, err = Connector(d.Driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(f)
	db.SetMaxIdleConns(6)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// BreakAt makes the statement number n break, counted from now on.
func (f *Faults) BreakAt(n int, after bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count, f.at, f.after = 0, n, after
}

// Statements returns how many were sent since BreakAt.
func (f *Faults) Statements() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.count
}

// Broken returns the text of the statement that broke.
func (f *Faults) Broken() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last
}

// Record has f remember what is sent, from now on or no longer.
func (f *Faults) Record(on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.recording = on
}

// Sent returns the recorded statements, with their last arguments.
func (f *Faults) Sent() map[string][]any {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.sent)
}

func (f *Faults) note(query string, args []driver.NamedValue) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.recording {
		return
	}
	values := make([]any, len(args))
	for i, arg := range args {
		values[i] = arg.Value
	}
	if f.sent == nil {
		f.sent = make(map[string][]any)
	}
	f.sent[query] = values
}

// HoldBack keeps the next statement back for which the function is true, until onward is called.
// held is closed when it has come.
func (f *Faults) HoldBack(which func(query string) bool) (held <-chan struct{}, onward func()) {
	return f.holding(which, false)
}

// HoldBackAll keeps all of them back. held is closed when the first has come.
func (f *Faults) HoldBackAll(which func(query string) bool) (held <-chan struct{}, onward func()) {
	return f.holding(which, true)
}

func (f *Faults) holding(which func(query string) bool, all bool) (<-chan struct{}, func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	mayGo := make(chan struct{})
	f.hold, f.held, f.onward, f.all = which, make(chan struct{}), mayGo, all
	return f.held, sync.OnceFunc(func() { close(mayGo) })
}

// pause keeps a statement back if it is the one that the test has chosen.
func (f *Faults) pause(query string) {
	f.mu.Lock()
	here, mayGo := f.hold != nil && f.hold(query), f.onward
	if here && f.held != nil {
		close(f.held)
		f.held = nil
	}
	if here && !f.all {
		f.hold = nil
	}
	f.mu.Unlock()
	if here {
		<-mayGo
	}
}

// aside is the beginning of statements that a store sends beside the requests of its callers, when it looks for
// rows that are over. They are not counted.
const aside = "WITH p AS (SELECT lock_key, CASE"

// step counts a statement, and says whether the connection breaks before or after it.
func (f *Faults) step(query string) (before, after bool) {
	f.pause(query)
	f.mu.Lock()
	defer f.mu.Unlock()
	if strings.HasPrefix(query, aside) {
		return false, false
	}
	f.count++
	if f.count != f.at {
		return false, false
	}
	f.last = query
	return !f.after, f.after
}

func (f *Faults) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := f.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &faultyConn{Conn: c, f: f}, nil
}

type faultyConn struct {
	driver.Conn
	f    *Faults
	dead bool
}

var errLost = fmt.Errorf("the network is gone: %w", io.ErrUnexpectedEOF)

// send sends one statement of a connection.
func send[T any](c *faultyConn, query string, statement func() (T, error)) (T, error) {
	var none T
	if c.dead {
		return none, errLost
	}
	before, after := c.f.step(query)
	if before {
		c.dead = true
		return none, errLost
	}
	v, err := statement()
	if after && err == nil {
		c.dead = true
		if rows, ok := any(v).(driver.Rows); ok {
			_ = rows.Close()
		}
		return none, errLost
	}
	return v, err
}

func (c *faultyConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	c.f.note(query, args)
	return send(c, query, func() (driver.Result, error) { return c.Conn.(driver.ExecerContext).ExecContext(ctx, query, args) })
}

func (c *faultyConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	c.f.note(query, args)
	return send(c, query, func() (driver.Rows, error) { return c.Conn.(driver.QueryerContext).QueryContext(ctx, query, args) })
}

// PrepareContext is called for statements that the driver can't send in one round trip.
func (c *faultyConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	c.f.step(query)
	return c.Conn.(driver.ConnPrepareContext).PrepareContext(ctx, query)
}

func (c *faultyConn) CheckNamedValue(v *driver.NamedValue) error {
	if check, ok := c.Conn.(driver.NamedValueChecker); ok {
		return check.CheckNamedValue(v)
	}
	return driver.ErrSkip
}

// IsValid is false for a connection that broke, as for one that a driver has found dead.
func (c *faultyConn) IsValid() bool { return !c.dead }
