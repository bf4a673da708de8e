package etcdstore_test

import (
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/drivertest"
	"github.com/keyturn/keyturn/internal/etcdtest"
	"github.com/keyturn/keyturn/internal/storetest"
	"github.com/keyturn/keyturn/store/etcdstore"
	"github.com/keyturn/keyturn/store/etcdstore/internal/clienttest"
)

// TestContract runs the suite that every store has to pass, on the oldest etcd that is supported and
// with the oldest client. Every store is a process with a network of its own.
func TestContract(t *testing.T) {
	h := harness(t)
	h.OtherBackend = harness
	if testing.Short() {
		h.Elsewhere, h.Also = "proof/dbtest", drivertest.ByKeystate
	}
	drivertest.Run(t, h)
}

func harness(t testing.TB) drivertest.Harness {
	server := etcdtest.Start(t)
	// etcd keeps whole seconds, and ends leases up to a second late.
	h, _ := storetest.Networked(drivertest.Harness{TTL: 2 * time.Second, Late: 4 * time.Second}, server.Addr(), func(t testing.TB, addr string) driver.Store {
		return open(t, clienttest.New(t, addr), etcdstore.WithPrefix(etcdstore.DefaultPrefix))
	})
	h.Restart = server.Forget
	h.Pause = func(testing.TB) { server.Pause() }
	h.Resume = func(testing.TB) { server.Resume() }
	return h
}
