package dbtest

import (
	"database/sql"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/lib/pq" // the driver "postgres"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/pgx/pgwake"
	"github.com/keyturn/keyturn/store/sqlstore"
)

// A process's first lease is a few milliseconds old when the server fails over. The engine must know by then
// which server has granted it: otherwise two processes hold the key until the next renewal.
func TestAYoungLeaseNoticesAFailover(t *testing.T) {
	t.Parallel()
	servertest.Long(t)
	for name, c := range map[string]struct {
		driver string
		late   bool // the listener says only afterwards where it is connected
	}{"pgx": {"pgx", false}, "lib/pq": {"postgres", false}, "the listener connects late": {"pgx", true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPair(t)
			dsn := p.DSNAt(p.Server.Addr()+","+p.replica.Addr()) + "&target_session_attrs=read-write"
			listener, err := pgwake.Dial(t.Context(), dsn)
			must(t, err)
			waker := &lateWaker{Listener: listener}
			waker.known.Store(!c.late)
			db, err := sql.Open(c.driver, p.words(t))
			must(t, err)
			t.Cleanup(func() { _ = db.Close() })
			eng := engineOn(t, open(t, db, sqlstore.Postgres, sqlstore.WithWaker(waker)), core.WithTTL(time.Minute))
			p.replica.CaughtUp(t, p.Server)
			p.network.Cut()
			l := lease(t, eng, "k")
			p.fail(t)
			waker.known.Store(true)
			select {
			case <-l.Done():
			case <-time.After(15 * time.Second): // the next renewal is after 20 s
				t.Error("the holder never learns that another server answers")
			}
		})
	}
}

// words is the DSN of both servers in the form that every driver reads.
func (p *pair) words(t *testing.T) string {
	t.Helper()
	u, err := url.Parse(p.DSN())
	must(t, err)
	var hosts, ports []string
	for _, addr := range []string{p.Server.Addr(), p.replica.Addr()} {
		host, port, _ := strings.Cut(addr, ":")
		hosts, ports = append(hosts, host), append(ports, port)
	}
	return fmt.Sprintf("host=%s port=%s user=%s dbname=%s sslmode=disable target_session_attrs=read-write",
		strings.Join(hosts, ","), strings.Join(ports, ","), u.User.Username(), strings.TrimPrefix(u.Path, "/"))
}

// lateWaker is a listener that is connecting at first.
type lateWaker struct {
	*pgwake.Listener
	known atomic.Bool
}

func (w *lateWaker) Server() (string, error) {
	if !w.known.Load() {
		return "", nil
	}
	return w.Listener.Server()
}
