package etcdstore_test

import (
	"regexp"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/drivertest"
	"github.com/keyturn/keyturn/internal/etcdtest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/store/etcdstore"
	"github.com/keyturn/keyturn/store/etcdstore/internal/clienttest"
)

// TestContract runs the suite that every store has to pass, on the oldest etcd that is supported and
// with the oldest client. Every store is a process with a network of its own.
func TestContract(t *testing.T) {
	h := harness(t)
	h.OtherBackend = harness
	if testing.Short() {
		h.Elsewhere = "proof/dbtest"
		h.Also = regexp.MustCompile(`^(M|N7|R6)`).MatchString // package keystate decides that
	}
	drivertest.Run(t, h)
}

// networked is a store with its network.
type networked struct {
	*etcdstore.Store
	*servertest.Proxy
}

func harness(t testing.TB) drivertest.Harness {
	server := etcdtest.Start(t)
	return drivertest.Harness{
		// etcd keeps whole seconds, and ends leases up to a second late.
		TTL: 2 * time.Second, Late: 4 * time.Second,
		New: func(t testing.TB) driver.Store {
			p := servertest.NewProxy(t, server.Addr())
			return &networked{open(t, clienttest.New(t, p.Addr()), etcdstore.WithPrefix(etcdstore.DefaultPrefix)), p}
		},
		Restart: server.Forget,
		Pause:   func(testing.TB) { server.Pause() },
		Resume:  func(testing.TB) { server.Resume() },
		Cut:     func(_ testing.TB, s driver.Store) { s.(*networked).Cut() },
		Heal:    func(_ testing.TB, s driver.Store) { s.(*networked).Heal() },
	}
}
