package sqltest

import (
	"os"
	"sync"
	"testing"
)

// runner is a *testing.M.
type runner interface{ Run() int }

// binary is what lives as long as the test binary.
var binary struct {
	mu      sync.Mutex
	started bool // by Main
	cleanup []func()

	postgres, mysql sync.Once
	servers         map[string]*Server
}

// Main returns m such that its Run ends the servers that the tests share. TestMain needs it in
// packages that call [Postgres] or [MySQL].
func Main(m runner) interface{ Run() int } { return withServers{m} }

type withServers struct{ m runner }

func (w withServers) Run() int {
	binary.mu.Lock()
	binary.started = true
	binary.servers = make(map[string]*Server)
	binary.mu.Unlock()
	code := w.m.Run()
	for i := len(binary.cleanup) - 1; i >= 0; i-- {
		binary.cleanup[i]()
	}
	return code
}

// lasting is the test that it holds, except that what it cleans up lives as long as the test
// binary.
type lasting struct{ testing.TB }

func (lasting) Cleanup(f func()) {
	binary.mu.Lock()
	defer binary.mu.Unlock()
	binary.cleanup = append(binary.cleanup, f)
}

// shared returns the server of that name that all tests of the binary share. The first caller
// starts it.
func shared(t testing.TB, name string, once *sync.Once, start func(testing.TB, ...string) *Server) *Server {
	t.Helper()
	binary.mu.Lock()
	started := binary.started
	binary.mu.Unlock()
	if !started {
		t.Fatal("sqltest: TestMain has to call sqltest.Main")
	}
	once.Do(func() { binary.servers[name] = start(lasting{t}) })
	s := binary.servers[name]
	if s == nil {
		t.Fatalf("sqltest: %s did not start, see the first test that wanted it", name)
	}
	return s
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
