package main

import (
	"database/sql"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/store/sqlstore"
)

// Errors of a store that had the status of another one.
func TestStatusOfAnError(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want int
	}{
		// etcd's refusal without a user was a server that does not answer.
		"no user": {&driver.UnavailableError{Op: "list", Err: errors.New("etcdserver: user name is empty"), Refused: true}, statusForbidden},
		// So were two of NATS.
		"no password": {&driver.UnavailableError{Op: "list", Err: errors.New("nats: connection closed: nats: Authorization Violation"), Refused: true}, statusForbidden},
		"no subject":  {&driver.UnavailableError{Op: "list", Err: errors.New(`nats: permissions violation: Permissions Violation for Publish to "$JS.API.INFO"`), Refused: true}, statusForbidden},
		// A missing database was a bug.
		"no database": {fmt.Errorf("migrate: %w", sqlstore.ErrNoDatabase), statusConfig},
	} {
		status := statusOf(c.err)
		check(t, status == c.want, "%s: status %d, want %d", name, status, c.want)
	}
}

// Something else under the name of a lock has one status on all stores: on some it was that of a server that does not
// answer.
func TestStatusOfSomethingElse(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "locks.db")
	command(t, "--store", "sqlite:"+file, "init").ends(0)
	db, err := sql.Open("sqlite", file)
	must(t, err)
	_, err = db.ExecContext(t.Context(), "INSERT INTO keyturn_lock (lock_key, owner, until) VALUES (CAST('k' AS BLOB), 'me', 'soon')")
	must(t, errors.Join(err, db.Close()))
	nodes := make([]string, 3)
	for i := range nodes {
		server := redistest.Start(t)
		must(t, server.Client().SAdd(t.Context(), "lock:k", "x").Err())
		nodes[i] = server.Addr()
	}
	for _, store := range []string{"sqlite:" + file, "redis://" + nodes[0], "redlock://" + strings.Join(nodes, ",") + "?persistent=true"} {
		command(t, "--store", store, "run", "-n", "k", "--", "true").ends(statusBug)
	}
}

// A driver that has something to say does not say it between the lines of a program.
func TestDriversAreSilent(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
			_ = conn.Close()
		}
	}()
	p := command(t, "--store", "mysql://me@"+l.Addr().String()+"/db", "--timeout=1s", "run", "-q", "-n", "k", "--", "true").ends(69)
	check(t, strings.HasPrefix(p.stderr.String(), "keyturn: ") && strings.Count(p.stderr.String(), "\n") == 1, "%s", p.stderr.String())
}
