//go:build unix

package zktest

import (
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

	once   sync.Once
	server *Server
}

// Main returns m such that its Run ends the server that the tests share. TestMain needs it in
// packages that call [Shared].
func Main(m runner) interface{ Run() int } { return withServer{m} }

type withServer struct{ m runner }

func (w withServer) Run() int {
	binary.mu.Lock()
	binary.started = true
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

// Shared returns the server that all tests of the binary share. The first caller starts it.
func Shared(t testing.TB) *Server {
	t.Helper()
	binary.mu.Lock()
	started := binary.started
	binary.mu.Unlock()
	if !started {
		t.Fatal("zktest: TestMain has to call zktest.Main")
	}
	binary.once.Do(func() { binary.server = Start(lasting{t}) })
	if binary.server == nil {
		t.Fatal("zktest: the server did not start, see the first test that wanted it")
	}
	return binary.server
}
