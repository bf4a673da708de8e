//go:build unix

package redistest

import (
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/servertest"
)

// A client of the Sentinel must be able to find the new master, whether the old one has stopped
// or is cut off, and also if the machine was too busy for the Sentinel itself.
func TestSentinelPromotesAReplica(t *testing.T) {
	servertest.Long(t)
	checktest.Each(t, map[string]func(s *Sentinel){
		"paused":  func(s *Sentinel) { s.Nodes[0].Pause() },
		"cut off": func(s *Sentinel) { s.Ways[0].Blackhole() },
	}, func(t *testing.T, fail func(s *Sentinel)) {
		s := StartSentinel(t, 1, 500*time.Millisecond)
		m := s.Master(t)
		require(t, m == 0, "node %d is the master", m)
		client := s.Client()
		must(t, client.Set(t.Context(), "k", "v", 0).Err())
		client.Wait(t.Context(), 1, patience)
		fail(s)
		m = s.AwaitFailover(t, 0)
		require(t, m == 1, "node %d is the master", m)
		// A client of its own, as an older one has connections to find dead first.
		got, err := s.Client().Get(t.Context(), "k").Result()
		check(t, err == nil && got == "v", "%q, %v", got, err)
		wantNil(t, s.Client().Set(t.Context(), "k", "w", 0).Err())
	})
}
