package sim

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"modernc.org/sqlite"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/sqlstore"
)

// sqlServer is a database server in this process, as a PostgreSQL is for those who use it: each
// connection has a session, and a transaction whose session breaks is rolled back. What carries the
// statements out is SQLite, in memory, by the bubble's clock.
type sqlServer struct {
	*host
	simple
	driver *sqlite.Driver
	name   string
	admin  *session

	mu       sync.Mutex // not the host's
	last     uint64
	asked    map[uint64]*statement // by the numbers that connections carry
	sessions map[net.Conn]bool
	over     chan struct{} // closed when a transaction ends
	ahead    time.Duration // by how much its clock is ahead of the bubble's
}

// What a server does about sessions that are in the way of others: see sqlstore's silentPatience.
const (
	lockPatience   = 5 * time.Second
	silentPatience = 2 * time.Second
	nextLook       = 10 * time.Millisecond // of a statement that waits for another one
)

// sqlServers tells the databases of a program apart.
var sqlServers int

func newSQLServer() (s *sqlServer, err error) {
	sqlServers++
	s = &sqlServer{
		host: &host{}, driver: &sqlite.Driver{}, name: fmt.Sprintf("file:/sim-%d?vfs=memdb&_pragma=busy_timeout(0)", sqlServers),
		asked: map[uint64]*statement{}, sessions: map[net.Conn]bool{}, over: make(chan struct{}),
	}
	s.program = s
	clock := func(*sqlite.FunctionContext, []sqldriver.Value) (sqldriver.Value, error) {
		return float64(s.now().UnixMilli()) / 1000, nil
	}
	if err := s.driver.RegisterScalarFunction("unixepoch", 1, clock); err != nil {
		return nil, err
	}
	if s.admin, err = s.open(); err != nil {
		return nil, err
	}
	schema, err := sqlstore.Schema(sqlstore.SQLite)
	if err != nil {
		return nil, err
	}
	return s, s.do(schema)
}

func (s *sqlServer) now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Add(s.ahead)
}

func (s *sqlServer) jump(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead += d
}

// do runs statements that no process has sent.
func (s *sqlServer) do(query string) error {
	st := &statement{query: query}
	s.run(s.admin, st)
	return st.err
}

// erase has it lose all rows.
func (s *sqlServer) erase() {
	for _, table := range s.tables() {
		if err := s.do("DELETE FROM " + table); err != nil {
			panic(err) // nothing is between the server and this session
		}
	}
}

func (s *sqlServer) tables() []string {
	st := &statement{query: "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name", asks: true}
	s.run(s.admin, st)
	var names []string
	for _, row := range st.rows {
		names = append(names, fmt.Sprint(row[0]))
	}
	return names
}

// writes implements program. Which ones write does not matter: any of them may come late.
func (*sqlServer) writes([]byte) bool { return true }

// serve implements program.
func (s *sqlServer) serve(c net.Conn) {
	s.mu.Lock()
	s.sessions[c] = true
	s.mu.Unlock()
	go func() {
		defer c.Close()
		se, err := s.open()
		if err != nil {
			panic(err) // it is memory of this process
		}
		defer s.free()
		defer se.close()
		number := make([]byte, 8)
		for {
			var bound time.Time
			if se.inTransaction {
				bound = time.Now().Add(silentPatience)
			}
			_ = c.SetReadDeadline(bound)
			if _, err := io.ReadFull(c, number); err != nil {
				return
			}
			st := s.take(binary.BigEndian.Uint64(number))
			if s.run(se, st); s.refuses() {
				return // it crashed meanwhile
			}
			if _, err := c.Write(number); err != nil {
				return
			}
		}
	}()
}

// put makes a statement known, and returns what a packet has of it.
func (s *sqlServer) put(st *statement) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	s.asked[s.last] = st
	return binary.BigEndian.AppendUint64(nil, s.last)
}

// take returns a statement that has arrived. None arrives twice: see kindsOfSQL.
func (s *sqlServer) take(nr uint64) *statement {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.asked[nr]
	delete(s.asked, nr)
	return st
}

// stop ends all sessions. The database goes with the last one.
func (s *sqlServer) stop() {
	s.mu.Lock()
	for c := range s.sessions {
		_ = c.Close()
	}
	s.mu.Unlock()
	s.admin.close()
}

// left returns what a sweep leaves when all that goes by itself has gone.
func (s *sqlServer) left() []string {
	time.Sleep(75 * time.Minute) // the reason of a forced release stays for an hour
	if err := s.sweep(); err != nil {
		return []string{err.Error()}
	}
	var rows []string
	for _, table := range s.tables() {
		st := &statement{query: "SELECT lock_key FROM " + table, asks: true}
		s.run(s.admin, st)
		for _, row := range st.rows {
			rows = append(rows, fmt.Sprintf("%s in %s", row[0], table))
		}
	}
	return rows
}

// sweep does at once what each store does every hour.
func (s *sqlServer) sweep() error {
	db := sql.OpenDB(connector(func(context.Context) (asker, error) { return local{s, s.admin}, nil }))
	defer db.Close()
	store, err := sqlstore.New(context.Background(), db, sqlstore.SQLite, sqlstore.WithLogger(silent))
	if err != nil {
		return err
	}
	return errors.Join(store.Sweep(context.Background(), 0), store.Close())
}

func (f *fleet) bootSQL() (err error) {
	if f.sql, err = newSQLServer(); err != nil {
		return err
	}
	f.has(f.sql.host, f.sql.erase, f.sql.left, f.sql.stop)
	f.setClock = f.sql.jump
	return nil
}

// openSQL makes the sqlstore of a process.
func (f *fleet) openSQL(p *process) (driver.Store, func(), error) {
	w := f.way(p, 0)
	db := sql.OpenDB(connector(func(ctx context.Context) (asker, error) {
		c, err := w.dial(ctx)
		if err != nil {
			return nil, err
		}
		return &client{server: f.sql, conn: c}, nil
	}))
	store, err := sqlstore.New(context.Background(), db, sqlstore.SQLite, sqlstore.WithWaiterLease(waiterLease), sqlstore.WithPoll(50*time.Millisecond), sqlstore.WithLogger(silent))
	return store, func() { _ = db.Close() }, err
}

// kindsOfSQL are those of a fleet with sqlstore. No connection of a database takes a request twice.
var kindsOfSQL = slices.Concat(kindsOfProcesses, []kind{
	empty,
	clock,
}, kindsOfHost, without(kindsOfNetwork, "duplicate"))
