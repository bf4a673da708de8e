package sqltest

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/keyturn/keyturn/internal/servertest"
)

// binary has the servers that the tests of the binary share.
var binary struct {
	servertest.Binary
	postgres, mysql         shared
	postgresData, mysqlData template
}

// shared is one of them.
type shared struct {
	once   sync.Once
	server *Server
}

// Main returns m such that its Run ends the servers that the tests share. TestMain needs it in
// packages that call [Postgres] or [MySQL].
func Main(m servertest.Runner) servertest.Runner { return binary.Main(m) }

// started returns the server, which start starts for the first caller.
func (s *shared) started(t testing.TB, name string, start func(testing.TB, ...string) *Server) *Server {
	t.Helper()
	lasting := binary.Lasting(t, "sqltest.Main")
	s.once.Do(func() { s.server = start(lasting) })
	if s.server == nil {
		t.Fatalf("sqltest: %s did not start, see the first test that wanted it", name)
	}
	return s.server
}

// template is the data of a server that was just set up, which takes 20 times as long as a copy of it.
type template struct {
	once sync.Once
	dir  string
	err  error
}

// copyTo copies the template, which setUp makes for the first caller, to the directory to.
func (p *template) copyTo(t testing.TB, user *user, to string, setUp func(dir string) error) {
	t.Helper()
	fill := func() error { return run(user.as(exec.Command("cp", "-a", p.dir, to))) }
	if binary.Runs() {
		lasting := binary.Lasting(t, "sqltest.Main")
		p.once.Do(func() {
			p.dir = filepath.Join(tempDir(lasting, user), "data")
			p.err = setUp(p.dir)
		})
	} else { // a program that starts few servers
		fill = func() error { return setUp(to) }
	}
	if err := errors.Join(p.err, fill()); err != nil {
		t.Fatalf("sqltest: %v", err)
	}
}

// tempDir makes a directory that the servers' user may write to.
func tempDir(t testing.TB, user *user) string {
	t.Helper()
	// Not t.TempDir: its path is too long for a Unix socket, and its parent is private.
	dir, err := os.MkdirTemp("", "keyturn-sql")
	if err != nil {
		t.Fatalf("sqltest: %v", err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := user.own(dir); err != nil {
		t.Fatalf("sqltest: %v", err)
	}
	return dir
}
