//go:build unix

package etcdtest

import (
	"sync"
	"testing"

	"github.com/keyturn/keyturn/internal/servertest"
)

// shared is the server that the tests of the binary share.
var shared struct {
	servertest.Binary
	once   sync.Once
	server *Server
}

// Main returns m such that its Run ends the server that the tests share. TestMain needs it in
// packages that call [Shared].
func Main(m servertest.Runner) servertest.Runner { return shared.Main(m) }

// Shared returns the server that all tests of the binary share. The first caller starts it. Tests keep
// apart by prefixes of their own.
func Shared(t testing.TB) *Server {
	t.Helper()
	lasting := shared.Lasting(t, "etcdtest.Main")
	shared.once.Do(func() { shared.server = Start(lasting) })
	if shared.server == nil {
		t.Fatal("etcdtest: etcd did not start, see the first test that wanted it")
	}
	return shared.server
}
