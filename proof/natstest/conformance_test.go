package natstest

import (
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/drivertest"
	"github.com/keyturn/keyturn/internal/storetest"
	"github.com/keyturn/keyturn/store/natsstore"
)

// stays is so long that a busy machine costs no waiter its place in the queue.
const stays = 6 * time.Second

// TestContract runs the suite that every store has to pass. Every store is a process with a network of its
// own.
func TestContract(t *testing.T) {
	t.Parallel()
	h := harness(t)
	h.OtherBackend = harness
	if testing.Short() {
		h.Elsewhere = "proof/dbtest"
		// What package keystate decides, and a crowd that takes a minute of a processor.
		h.Also = regexp.MustCompile(`^(M|I|L|N7|R6|W)|random|transfers never wait`).MatchString
	}
	drivertest.Run(t, h)
}

func harness(t testing.TB) drivertest.Harness {
	opts := server.Options{StoreDir: t.TempDir()}
	srv := start(t, opts)
	opts.Port = port(srv)
	h, _ := storetest.Networked(drivertest.Harness{
		TTL: time.Second, Late: 5 * time.Second, OneByOne: true,
		Restart: func(t testing.TB) {
			stop(srv)
			must(t, os.RemoveAll(opts.StoreDir))
			srv = start(t, opts)
		},
	}, srv.Addr().String(), func(t testing.TB, addr string) driver.Store {
		return open(t, connect(t, addr), natsstore.WithWaiterLease(stays))
	})
	return h
}
