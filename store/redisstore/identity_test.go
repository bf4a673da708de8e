//go:build unix

package redisstore_test

import (
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/servertest"
)

// early is long before the first renewal of a lease of a minute is due, after 20 s.
const early = 12 * time.Second

// lostEarly checks that the lease is lost without its renewal being due.
func lostEarly(t *testing.T, l *core.Lease) {
	t.Helper()
	began := time.Now()
	select {
	case <-l.Done():
		t.Logf("found out after %v", time.Since(began))
	case <-time.After(early):
		t.Errorf("not lost within %v", early)
	}
	_ = l.Release(bg)
}

// beats is time for the engine to ask who the server is, which it does once a second.
const beats = 3 * time.Second

// TestEmptyRestart: a server that has lost its data is recognized by its new run ID.
func TestEmptyRestart(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	server := redistest.Start(t)
	eng := engine(t, open(t, server.Client()), core.WithTTL(time.Minute))
	l := acquire(t, eng, "k")
	time.Sleep(beats)
	server.Restart(t)
	lostEarly(t, l)
}

// TestSentinelFailover: a replica that did not have the grant becomes the master. The
// holder finds out when its client sees that, and one that it had stays in force.
func TestSentinelFailover(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	s := redistest.StartSentinel(t, 1, time.Second)
	eng := engine(t, open(t, s.Client()), core.WithTTL(time.Minute))
	forgotten, known := acquire(t, eng, "forgotten"), acquire(t, eng, "known")
	time.Sleep(beats)
	s.Nodes[0].Client().Wait(t.Context(), 1, 5*time.Second)
	replica := s.Nodes[1].Client()
	set(t, s.Nodes[1], "replica-read-only", "no")
	check(t, replica.Del(t.Context(), "lock:forgotten").Val() == 1, "the replica did not have the lock")
	s.Nodes[0].Pause()
	s.AwaitFailover(t, 0)
	lostEarly(t, forgotten)
	wantIs(t, "the other", known.Err(), nil)
	ttl := replica.PTTL(t.Context(), "lock:known").Val()
	check(t, ttl >= 50*time.Second, "its end is in %v: it was not renewed", ttl)
	wantNil(t, known.Release(t.Context()))
}
