package handoff_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/internal/handoff"
)

const ttl = 10 * time.Second

// granted is a grant that just came.
func granted() handoff.Grant {
	now := time.Now()
	return handoff.Grant{
		Grant:     driver.Grant{Owner: "o", Claims: []driver.Claim{driver.Exclusive("k")}, TTL: ttl, Token: 7, HandOffs: handoff.MaxHandOffs, Since: now},
		Heard:     now,
		Heritable: true,
	}
}

// Each hand-off takes the next token, and only as many as the store reserved: the one behind
// those may be another lease's.
func TestTokenCountsHands(t *testing.T) {
	for reserved, want := range map[uint64]uint64{0: 0, 1: 1, 15: 15, handoff.MaxHandOffs: handoff.MaxHandOffs, 1 << 40: handoff.MaxHandOffs} {
		var s handoff.Streak
		g := granted()
		g.HandOffs = reserved
		if _, begun := s.Begin(g, g.Heard, "", 5); begun != (want > 0) {
			t.Fatalf("%d reserved: begun: %t", reserved, begun)
		}
		n := uint64(0)
		for ; s.Decide(g, ttl, g.Heard) == handoff.HandOn && n <= want; n++ {
			if g = s.Next(g, ""); g.FencingToken() != 7+n+1 {
				t.Fatalf("token %d of hand-off %d", g.FencingToken(), n+1)
			}
		}
		if n != want || s.Running() {
			t.Errorf("%d hand-offs, want %d; still running: %t", n, want, s.Running())
		}
	}
}

func TestDecisions(t *testing.T) {
	for name, c := range map[string]struct {
		after time.Duration // from the grant to the release
		heir  time.Duration
		grant func(*handoff.Grant)
		want  handoff.Decision
	}{
		"at once":                       {0, ttl, nil, handoff.HandOn},
		"before the store is forgotten": {10 * time.Millisecond, ttl, nil, handoff.HandOn},
		"after the store's last word":   {11 * time.Millisecond, ttl, nil, handoff.Confirm},
		"after the streak":              {handoff.MaxTime + 1, ttl, nil, handoff.Release},
		"nobody takes it":               {0, 0, nil, handoff.Release},
		"wants half of it":              {0, ttl / 2, nil, handoff.Release},
		"wants more than half":          {0, ttl/2 + 1, nil, handoff.HandOn},
		"wants twice as much":           {0, 2 * ttl, nil, handoff.Release},
		"wants less than twice":         {0, 2*ttl - 1, nil, handoff.HandOn},
		"not the present holder's":      {0, ttl, func(g *handoff.Grant) { g.HandedOn++ }, handoff.Release},
		"another lease":                 {0, ttl, func(g *handoff.Grant) { g.Owner = "other" }, handoff.Release},
		"past half of its term":         {0, ttl, func(g *handoff.Grant) { g.Since = g.Since.Add(-ttl/2 - 1) }, handoff.Release},
		"past half of a first term": {0, ttl, func(g *handoff.Grant) {
			g.Term, g.Since = time.Second, g.Since.Add(-time.Second/2-1)
		}, handoff.HandOn},
		"past three quarters of a first term": {0, ttl, func(g *handoff.Grant) {
			g.Term, g.Since = time.Second, g.Since.Add(-time.Second*3/4-1)
		}, handoff.Release},
	} {
		var s handoff.Streak
		g := granted()
		s.Begin(g, g.Heard, "", 5)
		if c.grant != nil {
			c.grant(&g)
		}
		if got := s.Decide(g, c.heir, g.Heard.Add(c.after)); got != c.want {
			t.Errorf("%s: decided %v, want %v", name, got, c.want)
		}
	}
}

// While another process waits, the streak ends with the callers that stood in line then.
func TestContendedStreakIsShort(t *testing.T) {
	for behind, want := range map[int]int{0: 0, 1: 1, 64: 64, 1000: 64} {
		var s handoff.Streak
		g := granted()
		g.Contended = true
		_, begun := s.Begin(g, g.Heard, "", behind)
		n := 0
		for ; s.Running() && n <= want; n++ {
			g = s.Next(g, "")
		}
		if begun != (want > 0) || n != want {
			t.Errorf("%d behind: begun: %v, %d hand-offs, want %d", behind, begun, n, want)
		}
	}
}

func TestExpiryOpensTheStreak(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s handoff.Streak
		s.Begin(granted(), time.Now(), "first", 1)
		expired := false
		s.ExpireLater(func() { expired = true })
		if s.Expire("other") || !s.Running() {
			t.Error("closed for another lease")
		}
		time.Sleep(handoff.MaxTime)
		synctest.Wait()
		if !expired || !s.Expire("o") || s.Running() || s.Idle() {
			t.Error("not closed")
		}
		if owner, trace := s.Owner(); owner != "o" || trace != "first" {
			t.Errorf("%q, %q", owner, trace)
		}
		s.End()
		if !s.Idle() || s.Expire("o") || s.Expire("") {
			t.Error("not ended")
		}
	})
}

// The end calls the expiry off, or it would come for a lease that is gone.
func TestEndStopsTheTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s handoff.Streak
		s.Begin(granted(), time.Now(), "", 1)
		s.ExpireLater(func() { t.Error("it expired") })
		s.End()
		time.Sleep(time.Second)
	})
}
