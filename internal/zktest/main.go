//go:build unix

package zktest

import (
	"fmt"
	"sync"
	"testing"
	"time"

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

// MaxSession is the longest session that the shared server allows.
const MaxSession = 4 * time.Second

// Shared returns the server that all tests of the binary share. The first caller starts it.
func Shared(t testing.TB) *Server {
	t.Helper()
	lasting := shared.Lasting(t, "zktest.Main")
	shared.once.Do(func() { shared.server = Start(lasting, fmt.Sprint("maxSessionTimeout=", MaxSession.Milliseconds())) })
	if shared.server == nil {
		t.Fatal("zktest: ZooKeeper did not start, see the first test that wanted it")
	}
	return shared.server
}
