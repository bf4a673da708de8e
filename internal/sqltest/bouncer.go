package sqltest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/internal/servertest"
)

// Bouncer runs a pgbouncer in front of a PostgreSQL, in transaction mode, until the test ends.
// settings are lines of its configuration, such as "default_pool_size = 3". Its address is for
// [Database.OpenAt].
//
// A client of it may get another connection to the server for each transaction, so nothing that
// belongs to a session survives: prepared statements, SET, LISTEN, advisory locks.
func (d *Database) Bouncer(t testing.TB, settings ...string) *servertest.Server {
	t.Helper()
	return BouncerTo(t, d.Server.Addr(), settings...)
}

// BouncerTo does as [Database.Bouncer], in front of the host:port addr, which is a proxy.
func BouncerTo(t testing.TB, addr string, settings ...string) *servertest.Server {
	t.Helper()
	host, to, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatalf("sqltest: %v", err)
	}
	bin := lookPath(t, "pgbouncer", "/usr/sbin")
	user := serverUser(t, "postgres")
	conf := filepath.Join(tempDir(t, user), "pgbouncer.ini")
	return servertest.Start(t, servertest.Program{
		Ready: "process up",
		Command: func(port int) *exec.Cmd {
			text := fmt.Sprintf(`[databases]
* = host=%s port=%s user=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = transaction
max_client_conn = 500
%s
`, host, to, account, port, strings.Join(settings, "\n"))
			if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
				t.Fatalf("sqltest: %v", err)
			}
			return user.as(exec.Command(bin, conf))
		},
	})
}
