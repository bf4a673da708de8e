// Package pgwake receives the messages by which PostgreSQL wakes waiters of package sqlstore:
//
//	listener, err := pgwake.Dial(ctx, dsn)
//	...
//	store, err := sqlstore.New(ctx, db, sqlstore.Postgres, sqlstore.WithWaker(listener))
//
// It has a connection of its own, outside of the pool, and a module of its own, because it needs
// pgx. The program's other connections may use any driver.
package pgwake

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// Listener listens to a channel that nobody else uses. Make one with [Dial]. It is safe for
// concurrent use.
type Listener struct {
	config   *pgx.ConnConfig
	channel  string
	messages chan string
	cancel   context.CancelFunc
	done     chan struct{}
	once     sync.Once
}

const (
	// keepAlive is how soon TCP looks whether an idle connection is still there.
	keepAlive = 15 * time.Second
	// dialTimeout bounds an attempt to connect anew, and maxPause the pause between two.
	dialTimeout = 10 * time.Second
	maxPause    = 5 * time.Second
)

// Dial connects to the server, and listens until Close. The DSN must lead to the server itself,
// not to a pooler that gives each transaction another connection: such a one loses the channel.
// The error is that of pgx, if the DSN is invalid or the server does not answer before ctx ends.
//
// If the connection breaks later, the listener connects anew, for as long as it takes.
func Dial(ctx context.Context, dsn string) (*Listener, error) {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	config.DialFunc = (&net.Dialer{KeepAlive: keepAlive}).DialContext
	var name [12]byte
	if _, err := rand.Read(name[:]); err != nil {
		return nil, err
	}
	l := &Listener{
		config: config, channel: "keyturn_" + hex.EncodeToString(name[:]), messages: make(chan string, 64), done: make(chan struct{}),
	}
	conn, err := l.connect(ctx)
	if err != nil {
		return nil, err
	}
	life, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	go l.run(life, conn)
	return l, nil
}

// Channel returns the name of the channel.
func (l *Listener) Channel() string { return l.channel }

// Messages returns what was sent to the channel. An empty message says that the connection was
// made anew, and that others may have been lost.
func (l *Listener) Messages() <-chan string { return l.messages }

// Close ends the connection, and then closes the channel of Messages. It returns nil.
func (l *Listener) Close() error {
	l.once.Do(l.cancel)
	<-l.done
	return nil
}

func (l *Listener) connect(ctx context.Context) (*pgx.Conn, error) {
	conn, err := pgx.ConnectConfig(ctx, l.config)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Exec(ctx, "LISTEN "+l.channel); err != nil {
		closeConn(conn)
		return nil, fmt.Errorf("pgwake: %w", err)
	}
	return conn, nil
}

// run passes messages on, and connects anew when the connection breaks, until life ends.
func (l *Listener) run(life context.Context, conn *pgx.Conn) {
	defer close(l.done)
	defer close(l.messages)
	for conn != nil {
		for l.deliver(life, conn) {
		}
		closeConn(conn)
		if conn = l.again(life); conn != nil && !l.pass(life, "") {
			closeConn(conn)
			return
		}
	}
}

// deliver waits for a message and passes it on. It returns false when the connection is broken
// or life has ended.
func (l *Listener) deliver(life context.Context, conn *pgx.Conn) bool {
	n, err := conn.WaitForNotification(life)
	return err == nil && l.pass(life, n.Payload)
}

func (l *Listener) pass(life context.Context, message string) bool {
	select {
	case l.messages <- message:
		return true
	case <-life.Done():
		return false
	}
}

// again connects anew; nil: life has ended.
func (l *Listener) again(life context.Context) *pgx.Conn {
	for pause := 10 * time.Millisecond; life.Err() == nil; pause = min(2*pause, maxPause) {
		ctx, cancel := context.WithTimeout(life, dialTimeout)
		conn, err := l.connect(ctx)
		cancel()
		if err == nil {
			return conn
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-life.Done():
			timer.Stop()
		}
	}
	return nil
}

// closeConn closes a connection that may be silent.
func closeConn(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.Close(ctx) // it is of no use any more
}
