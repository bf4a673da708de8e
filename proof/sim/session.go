package sim

import (
	"context"
	sqldriver "database/sql/driver"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// statement is one on its way, and its answer. A packet has only its number, because what a statement
// looks like on a wire does not matter here.
type statement struct {
	query string
	args  []sqldriver.NamedValue
	asks  bool // it has rows

	columns []string
	rows    [][]sqldriver.Value
	result  sqldriver.Result
	err     error
}

// session is one of the server, with the statements that it has prepared.
type session struct {
	conn          sqldriver.Conn
	prepared      map[string]sqldriver.Stmt
	inTransaction bool
}

func (s *sqlServer) open() (*session, error) {
	conn, err := s.driver.Open(s.name)
	return &session{conn: conn, prepared: map[string]sqldriver.Stmt{}}, err
}

func (se *session) close() {
	for _, st := range se.prepared {
		_ = st.Close()
	}
	_ = se.conn.Close() // what it had not committed is undone
}

// run carries a statement out when no other transaction is in its way.
func (s *sqlServer) run(se *session, st *statement) {
	for over := time.Now().Add(lockPatience); ; {
		free := s.freed()
		if st.err = se.attempt(st); !isBusy(st.err) || time.Now().After(over) || s.refuses() {
			break
		}
		select {
		case <-free:
		case <-time.After(nextLook):
		}
	}
	switch verb, _, _ := strings.Cut(st.query, " "); {
	case st.err != nil && verb != "ROLLBACK":
	case verb == "BEGIN":
		se.inTransaction = true
	case verb == "COMMIT", verb == "ROLLBACK":
		se.inTransaction = false
		s.free()
	}
}

// isBusy reports whether a statement was not carried out because of another transaction.
func isBusy(err error) bool {
	var failed *sqlite.Error
	return errors.As(err, &failed) && failed.Code()&0xff == sqlite3.SQLITE_BUSY
}

// freed returns a channel that is closed when a transaction ends.
func (s *sqlServer) freed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over
}

func (s *sqlServer) free() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.over)
	s.over = make(chan struct{})
}

func (se *session) attempt(st *statement) (err error) {
	p := se.prepared[st.query]
	if p == nil {
		if p, err = se.conn.Prepare(st.query); err != nil {
			return err
		}
		se.prepared[st.query] = p
	}
	if !st.asks {
		st.result, err = p.(sqldriver.StmtExecContext).ExecContext(context.Background(), st.args)
		return err
	}
	rows, err := p.(sqldriver.StmtQueryContext).QueryContext(context.Background(), st.args)
	if err != nil {
		return err
	}
	defer rows.Close()
	st.columns, st.rows = rows.Columns(), nil
	for {
		row := make([]sqldriver.Value, len(st.columns))
		if err := rows.Next(row); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		st.rows = append(st.rows, row)
	}
}

// asker carries statements to the server and back.
type asker interface {
	ask(ctx context.Context, st *statement) error
	io.Closer
}

// local asks without a network.
type local struct {
	server *sqlServer
	*session
}

func (l local) ask(_ context.Context, st *statement) error { l.server.run(l.session, st); return nil }
func (local) Close() error                                 { return nil }

// client is a connection of a process, as a client library has it.
type client struct {
	server *sqlServer
	conn   net.Conn
}

// readTimeout is what docs/operations-sql.md asks for: without it, a connection whose answers get lost
// would be waited for as long as the system repeats its packets.
const readTimeout = time.Second

// ask implements asker. After an error nobody knows what comes next on the connection.
func (c *client) ask(ctx context.Context, st *statement) error {
	_ = c.conn.SetReadDeadline(time.Now().Add(readTimeout))
	defer context.AfterFunc(ctx, func() { _ = c.conn.SetReadDeadline(time.Now()) })()
	packet := c.server.put(st)
	if _, err := c.conn.Write(packet); err != nil {
		return err
	}
	answer := make([]byte, len(packet))
	_, err := io.ReadFull(c.conn, answer)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() != nil:
		return ctx.Err()
	case err == nil && binary.BigEndian.Uint64(answer) != binary.BigEndian.Uint64(packet):
		return errors.New("this is the answer to another statement")
	}
	return err
}

func (c *client) Close() error { return c.conn.Close() }

// connector is a pool's way to make connections.
type connector func(context.Context) (asker, error)

// Connect implements sqldriver.Connector.
func (c connector) Connect(ctx context.Context) (sqldriver.Conn, error) {
	a, err := c(ctx)
	if err != nil {
		return nil, err
	}
	return &pooled{asker: a}, nil
}

// Driver implements sqldriver.Connector.
func (connector) Driver() sqldriver.Driver { return nil }

// pooled is a connection of a pool.
type pooled struct {
	asker
	broken bool
}

var errByContext = errors.New("only statements with a context are sent")

// Prepare and Begin implement sqldriver.Conn.
func (*pooled) Prepare(string) (sqldriver.Stmt, error) { return nil, errByContext }

// Begin implements sqldriver.Conn.
func (*pooled) Begin() (sqldriver.Tx, error) { return nil, errByContext }

// IsValid implements sqldriver.Validator.
func (p *pooled) IsValid() bool { return !p.broken }

func (p *pooled) send(ctx context.Context, st *statement) error {
	if p.broken {
		return sqldriver.ErrBadConn
	}
	if err := p.ask(ctx, st); err != nil {
		p.broken = true
		return err
	}
	return st.err
}

// ExecContext implements sqldriver.ExecerContext.
func (p *pooled) ExecContext(ctx context.Context, query string, args []sqldriver.NamedValue) (sqldriver.Result, error) {
	st := &statement{query: query, args: args}
	err := p.send(ctx, st)
	return st.result, err
}

// QueryContext implements sqldriver.QueryerContext.
func (p *pooled) QueryContext(ctx context.Context, query string, args []sqldriver.NamedValue) (sqldriver.Rows, error) {
	st := &statement{query: query, args: args, asks: true}
	if err := p.send(ctx, st); err != nil {
		return nil, err
	}
	return &answer{st: st}, nil
}

// answer has the rows of a question.
type answer struct {
	st   *statement
	next int
}

// Columns implements sqldriver.Rows.
func (a *answer) Columns() []string { return a.st.columns }

// Close implements sqldriver.Rows.
func (*answer) Close() error { return nil }

// Next implements sqldriver.Rows.
func (a *answer) Next(row []sqldriver.Value) error {
	if a.next == len(a.st.rows) {
		return io.EOF
	}
	copy(row, a.st.rows[a.next])
	a.next++
	return nil
}
