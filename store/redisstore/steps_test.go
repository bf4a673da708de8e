package redisstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/store/redisstore"
)

// TestNobodyIsLostBehindADeadReader: the server lets in 64 readers with a step, and tells the
// next one to take the next step. That one hangs, and the server does not know. None of those
// that are in is done, so the rest looks for itself, as all waiters do now and then.
func TestNobodyIsLostBehindADeadReader(t *testing.T) {
	long(t)
	t.Parallel()
	server := redistest.Start(t)
	network := servertest.NewProxy(t, server.Addr())
	patience := redisstore.WithWaiterLease(3 * time.Second) // those who are let in have half of it to release
	a, b := open(t, server.Client()), open(t, server.Client(), patience)
	silent := open(t, throughProxy(server, network), patience)
	g := lock(t, a, "holder", "k", time.Minute)
	var in []*waiter
	for i := range 64 {
		in = append(in, enqueueFor(t, a, fmt.Sprint("in", i), driver.Shared("k")))
	}
	enqueueFor(t, silent, "silent", driver.Shared("k"))
	var rest []*waiter
	for i := range 10 {
		rest = append(rest, enqueueFor(t, b, fmt.Sprint("rest", i), driver.Shared("k")))
	}
	writer := enqueueFor(t, a, "writer", driver.Exclusive("k"))
	network.Blackhole()
	release(t, a, g)
	var held []driver.Grant
	for _, w := range append(in, rest...) {
		held = append(held, w.granted(10*time.Second))
	}
	select {
	case <-writer.done:
		t.Fatal("the writer passed readers")
	default:
	}
	for _, g := range held {
		release(t, a, g)
	}
	release(t, a, writer.granted(10*time.Second))
}
