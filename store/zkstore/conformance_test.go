package zkstore_test

import (
	"fmt"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/drivertest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/internal/zktest"
	"github.com/keyturn/keyturn/store/zkstore"
)

const (
	// late is how much later than due something may happen: several servers run at the same time.
	late = 3 * time.Second
	// stays is so long that a busy machine costs no waiter its place in the queue.
	stays = zktest.MaxSession
)

// TestContract runs the suite that every store has to pass. Every store is a process with a network
// of its own. In the short run, the tests share a server, which nobody restarts: a silent one is behind a network
// that loses everything.
func TestContract(t *testing.T) {
	t.Parallel()
	own := func(t testing.TB) drivertest.Harness {
		return harness(zktest.Start(t, fmt.Sprint("maxSessionTimeout=", stays.Milliseconds())))
	}
	if testing.Short() {
		own = func(t testing.TB) drivertest.Harness {
			h := harness(zktest.Shared(t))
			h.Restart, h.OneByOne, h.Elsewhere = nil, true, "proof/dbtest"
			h.Also = regexp.MustCompile(`^(M|N7|R6)`).MatchString // package keystate decides that
			return h
		}
	}
	h := own(t)
	h.OtherBackend = own
	drivertest.Run(t, h)
}

func harness(server *zktest.Server) drivertest.Harness {
	root := newRoot()
	var networks sync.Map // driver.Store -> *servertest.Proxy
	network := func(s driver.Store) *servertest.Proxy {
		p, _ := networks.Load(s)
		return p.(*servertest.Proxy)
	}
	h := drivertest.Harness{
		TTL: time.Second, Late: late,
		New: func(t testing.TB) driver.Store {
			p := servertest.NewProxy(t, server.Addr())
			s := open(t, p.Addr(), root, zkstore.WithSession(stays))
			networks.Store(s, p)
			return s
		},
		Restart: func(t testing.TB) {
			server.Kill()
			server.Forget(t)
			server.Restart(t)
		},
		Pause:  func(testing.TB) { server.Pause() },
		Resume: func(testing.TB) { server.Resume() },
		Cut:    func(_ testing.TB, s driver.Store) { network(s).Cut() },
		Heal:   func(_ testing.TB, s driver.Store) { network(s).Heal() },
	}
	if testing.Short() {
		all := func(do func(*servertest.Proxy)) {
			networks.Range(func(_, p any) bool {
				do(p.(*servertest.Proxy))
				return true
			})
		}
		h.Pause = func(testing.TB) { all((*servertest.Proxy).Blackhole) }
		h.Resume = func(testing.TB) { all((*servertest.Proxy).Heal) }
	}
	return h
}
