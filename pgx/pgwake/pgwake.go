// Package pgwake receives the messages by which PostgreSQL wakes waiters of package sqlstore:
//
//	listener, err := pgwake.Dial(ctx, dsn)
//	...
//	store, err := sqlstore.New(ctx, db, sqlstore.Postgres, sqlstore.WithWaker(listener))
//
// It has a connection of its own, outside of the pool, and a module of its own, because it needs
// pgx. The program's other connections may use any driver.
//
// A store that is opened by its URL gets a listener if the program imports this package, unless the
// URL says waker=off:
//
//	import _ "github.com/keyturn/keyturn/pgx/pgwake"
//	...
//	store, err := storeurl.Open(ctx, "postgres://user@localhost/db")
package pgwake

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/keyturn/keyturn/internal/waitloop"
	"github.com/keyturn/keyturn/store/sqlstore"
)

func init() {
	sqlstore.RegisterClient(sqlstore.Client{Listen: listen, Open: open, Warned: warned, Sees: sees})
}

// Listener listens to a channel that nobody else uses. Make one with [Dial]. It is safe for
// concurrent use.
type Listener struct {
	config   *pgx.ConnConfig
	channel  string
	messages chan string
	server   atomic.Pointer[state]
	life     context.Context
	cancel   context.CancelFunc
	done     chan struct{}
}

// state is which server the connection leads to, or why there is none. The zero value: there was none yet.
type state struct {
	server string
	err    error
}

// keepAlive is how TCP looks whether the other side of an idle connection is still there: it knows
// after 20 s.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 5 * time.Second, Count: 3}

const (
	// dialTimeout bounds an attempt to connect anew, and maxPause the pause between two.
	dialTimeout = 10 * time.Second
	maxPause    = 5 * time.Second
	// poolerPause is longer, because a pooler does not go away.
	poolerPause = time.Minute
	// hearTimeout is how long a message may take.
	hearTimeout = 2 * time.Second
)

// Dial connects to the server, and listens until Close. The DSN must lead to the server itself,
// not to a pooler that gives each transaction another connection: the error then matches [ErrPooler].
// The error is that of pgx, if the DSN is invalid or the server does not answer before ctx ends.
//
// If the connection breaks later, the listener connects anew, for as long as it takes.
func Dial(ctx context.Context, dsn string) (*Listener, error) {
	l, err := newListener(dsn)
	if err != nil {
		return nil, err
	}
	conn, err := l.connect(ctx)
	if err != nil {
		l.cancel()
		return nil, fmt.Errorf("pgwake: %w", err)
	}
	go l.run(conn)
	return l, nil
}

// listen does so without waiting for the server.
func listen(dsn string) (sqlstore.Waker, error) {
	l, err := newListener(dsn)
	if err != nil {
		return nil, err
	}
	go l.run(nil)
	return l, nil
}

func newListener(dsn string) (*Listener, error) {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	config.DialFunc = (&net.Dialer{KeepAliveConfig: keepAlive}).DialContext
	l := &Listener{config: config, messages: make(chan string, 64), done: make(chan struct{})}
	l.channel = "keyturn_" + strings.ToLower(rand.Text()) // as LISTEN takes a name without quotes
	l.server.Store(&state{})
	l.life, l.cancel = context.WithCancel(context.Background())
	return l, nil
}

// Channel returns the name of the channel.
func (l *Listener) Channel() string { return l.channel }

// Messages returns what was sent to the channel. An empty message says that the connection broke
// or was made anew, and that others may have been lost.
func (l *Listener) Messages() <-chan string { return l.messages }

// Server names the server that the connection leads to: its address, its port, and when it was
// started; "" before the first connection. The error says why there is no connection.
func (l *Listener) Server() (string, error) {
	s := l.server.Load()
	return s.server, s.err
}

// Close ends the connection, and then closes the channel of Messages. It returns nil.
func (l *Listener) Close() error {
	l.cancel()
	<-l.done
	return nil
}

func (l *Listener) connect(ctx context.Context) (*pgx.Conn, error) {
	conn, err := pgx.ConnectConfig(ctx, l.config)
	if err != nil {
		return nil, err
	}
	_, err = conn.Exec(ctx, "LISTEN "+l.channel)
	var server string
	var pid uint32
	if err == nil {
		// A socket of Unix has no address. A pooler may give the next statement another connection.
		err = conn.QueryRow(ctx, "SELECT pg_backend_pid(), concat_ws(' ', inet_server_addr(), inet_server_port(), extract(epoch FROM pg_postmaster_start_time()))", pgx.QueryExecModeExec).Scan(&pid, &server)
	}
	if err == nil && pid != conn.PgConn().PID() { // somebody is between
		err = l.hear(ctx, conn)
	}
	if err != nil {
		closeConn(conn)
		return nil, err
	}
	l.server.Store(&state{server: server})
	return conn, nil
}

// ErrPooler says that messages do not arrive: the DSN leads to a pooler that gives each transaction another
// connection.
var ErrPooler = errors.New("a pooler gives each transaction another connection, so no messages arrive: connect to the server itself")

// hear sends a message from another connection, and wants conn to receive it.
func (l *Listener) hear(ctx context.Context, conn *pgx.Conn) error {
	other, err := pgx.ConnectConfig(ctx, l.config)
	if err != nil {
		return err
	}
	defer closeConn(other)
	if _, err := other.Exec(ctx, "NOTIFY "+l.channel); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, hearTimeout)
	defer cancel()
	if _, err := conn.WaitForNotification(ctx); err != nil {
		return fmt.Errorf("%w: %w", ErrPooler, err)
	}
	return nil
}

// run passes messages on, and connects anew when the connection breaks, until life ends. conn may be
// nil: it connects first.
func (l *Listener) run(conn *pgx.Conn) {
	defer close(l.done)
	defer close(l.messages)
	for {
		if conn == nil {
			if conn = l.again(); conn == nil {
				return
			}
			if !l.pass("") {
				closeConn(conn)
				return
			}
		}
		err := l.deliver(conn)
		closeConn(conn)
		conn = nil
		if !l.fail(err) {
			return
		}
	}
}

// deliver passes messages on, until the connection breaks or life ends.
func (l *Listener) deliver(conn *pgx.Conn) error {
	for {
		n, err := conn.WaitForNotification(l.life)
		if err != nil {
			return err
		}
		if !l.pass(n.Payload) {
			return l.life.Err()
		}
	}
}

// pass reports false if life has ended.
func (l *Listener) pass(message string) bool {
	select {
	case l.messages <- message:
		return true
	case <-l.life.Done():
		return false
	}
}

// fail notes why no messages arrive, and passes on that they don't. It reports false if life has ended.
func (l *Listener) fail(err error) bool {
	before := l.server.Swap(&state{err: fmt.Errorf("pgwake: %w", err)})
	return l.life.Err() == nil && (before.err != nil || l.pass(""))
}

// again connects anew; nil: life has ended.
func (l *Listener) again() *pgx.Conn {
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, maxPause) {
		ctx, cancel := context.WithTimeout(l.life, dialTimeout)
		conn, err := l.connect(ctx)
		cancel()
		if err == nil {
			return conn
		}
		if !l.fail(err) {
			return nil
		}
		rest := pause
		if errors.Is(err, ErrPooler) {
			rest = poolerPause
		}
		if !waitloop.Sleep(l.life, rest) {
			return nil
		}
	}
}

// closeConn closes a connection that may be silent.
func closeConn(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.Close(ctx) // it is of no use any more
}
