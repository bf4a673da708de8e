package zkstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/drivertest"
	"github.com/keyturn/keyturn/internal/storetest"
	"github.com/keyturn/keyturn/internal/zktest"
	"github.com/keyturn/keyturn/store/zkstore"
)

// stays is so long that a busy machine costs no waiter its place in the queue.
const stays = zktest.MaxSession

// TestContract runs the suite that every store has to pass. Every store is a process with a network of its own. In the
// short run, the tests share a server, which nobody restarts: a silent one is behind a network that loses everything.
func TestContract(t *testing.T) {
	t.Parallel()
	own := func(t testing.TB) drivertest.Harness {
		server := zktest.Start(t, fmt.Sprint("maxSessionTimeout=", stays.Milliseconds()))
		h, _ := harness(server)
		h.Restart = func(t testing.TB) { forget(t, server) }
		h.Pause = func(testing.TB) { server.Pause() }
		h.Resume = func(testing.TB) { server.Resume() }
		return h
	}
	if testing.Short() {
		own = func(t testing.TB) drivertest.Harness {
			h, networks := harness(zktest.Shared(t))
			h.Pause, h.Resume = networks.SilenceAll, networks.HealAll
			h.OneByOne, h.Elsewhere, h.Also = true, "proof/dbtest", drivertest.ByKeystate
			return h
		}
	}
	h := own(t)
	h.OtherBackend = own
	drivertest.Run(t, h)
}

func harness(server *zktest.Server) (drivertest.Harness, *storetest.Networks) {
	root := newRoot()
	// Several servers run at the same time, so much may be late.
	return storetest.Networked(drivertest.Harness{TTL: time.Second, Late: 3 * time.Second}, server.Addr(), func(t testing.TB, addr string) driver.Store {
		return open(t, addr, root, zkstore.WithSession(stays))
	})
}

// forget has the server lose its data.
func forget(t testing.TB, server *zktest.Server) {
	t.Helper()
	server.Kill()
	server.Forget(t)
	server.Restart(t)
}
