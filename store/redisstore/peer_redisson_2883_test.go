package redisstore_test

import (
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/redistest"
)

// TestKilledHeadOfLine: the server sees that nobody listens any more.
func TestKilledHeadOfLine(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	a, b := open(t, server.Client()), open(t, server.Client())
	g := lock(t, a, "holder", "k", time.Minute)
	head := startProcess(t, server, "k", time.Minute)
	head.says("queued", startup)
	second := enqueue(t, b, "second", "k", time.Minute)
	head.kill()
	eventually(t, time.Second, "the server notices", func() bool {
		return subscribers(t, server) == 1
	})
	release(t, a, g)
	second.granted(500 * time.Millisecond)
}

// TestPausedHeadOfLine has the head neither dead nor alive: it gets its turn,
// does not come, and loses it after the claim time.
func TestPausedHeadOfLine(t *testing.T) {
	t.Parallel()
	const ttl = 400 * time.Millisecond // the claim time is no longer than that
	server := redistest.Start(t)
	a, b := open(t, server.Client()), open(t, server.Client())
	g := lock(t, a, "holder", "k", time.Minute)
	head := startProcess(t, server, "k", ttl)
	head.says("queued", startup)
	second := enqueue(t, b, "second", "k", time.Minute)
	pause(t, head)
	released := time.Now()
	release(t, a, g)
	second.granted(ttl + time.Second)
	if took := second.at.Sub(released); took < ttl-50*time.Millisecond {
		t.Errorf("the next was let in after %v: the head in line had no chance to come", took)
	}
}
