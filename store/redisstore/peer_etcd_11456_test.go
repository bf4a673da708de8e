package redisstore_test

import (
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/redistest"
)

// TestWaiterThatSleptThroughItsTurn is about etcd#11456: a waiter was granted the
// lock after its own lease was over, from what it had been told before.
func TestWaiterThatSleptThroughItsTurn(t *testing.T) {
	t.Parallel()
	const ttl = 200 * time.Millisecond
	server := redistest.Start(t)
	s := open(t, server.Client())
	g := lock(t, s, "holder", "k", time.Minute)
	sleeper := startProcess(t, server, "k", ttl)
	sleeper.says("queued", startup)
	next := enqueue(t, s, "next", "k", time.Minute)
	pause(t, sleeper)
	release(t, s, g) // its message waits in the connection of a process that stands still
	g = next.granted(soon)
	sleeper.signal(syscall.SIGCONT)
	eventually(t, 5*time.Second, "it is in line again", func() bool { return waiting(t, server, "k") == 1 })
	if err := renew(t, s, g); err != nil {
		t.Fatalf("the holder's lease: %v", err)
	}
	release(t, s, g)
	token, err := strconv.ParseUint(sleeper.says("granted", soon), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	if token <= g.Token {
		t.Errorf("token %d follows %d", token, g.Token)
	}
}
