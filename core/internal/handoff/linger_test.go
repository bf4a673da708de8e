package handoff_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core/internal/handoff"
)

// lingering is a grant whose engine hears when it is wanted.
func lingering() handoff.Grant {
	g := granted()
	g.Origin = &handoff.Origin{Granted: g.Heard}
	return g
}

func TestMayLinger(t *testing.T) {
	const d = time.Second
	renewed := func(g *handoff.Grant, now time.Time) { g.Since = now }
	for name, c := range map[string]struct {
		after time.Duration // from the grant to the release
		grant func(g *handoff.Grant, now time.Time)
		want  time.Duration
	}{
		"at once":                       {0, nil, d},
		"near the end of the stay":      {9500 * time.Millisecond, renewed, d / 2},
		"at the end of the stay":        {10 * time.Second, renewed, 0},
		"when half of the term is left": {ttl / 2, nil, d},
		"when less is left":             {ttl/2 + 1, nil, 0},
		"nobody tells":                  {0, func(g *handoff.Grant, _ time.Time) { g.Origin = nil }, 0},
		"others wait":                   {0, func(g *handoff.Grant, _ time.Time) { g.Contended = true }, 0},
		"no token is left":              {0, func(g *handoff.Grant, _ time.Time) { g.HandedOn = g.HandOffs }, 0},
	} {
		g := lingering()
		now := g.Since.Add(c.after)
		if c.grant != nil {
			c.grant(&g, now)
		}
		if got, without := g.MayLinger(d, now), g.MayLinger(0, now); got != c.want || without != 0 {
			t.Errorf("%s: for %v, want %v; without the option for %v", name, got, c.want, without)
		}
	}
}

func TestTaken(t *testing.T) {
	for name, c := range map[string]struct {
		wants time.Duration
		grant func(*handoff.Grant)
		fits  bool
	}{
		"as it is":             {ttl, func(*handoff.Grant) {}, true},
		"another TTL":          {2 * ttl, func(*handoff.Grant) {}, false},
		"no hand-offs at all":  {0, func(*handoff.Grant) {}, false},
		"the last token":       {ttl, func(g *handoff.Grant) { g.HandedOn = g.HandOffs - 1 }, true},
		"no token is left":     {ttl, func(g *handoff.Grant) { g.HandedOn = g.HandOffs }, false},
		"not renewed for long": {ttl, func(g *handoff.Grant) { g.Since = g.Heard.Add(-ttl/2 - 1) }, false},
	} {
		g := lingering()
		c.grant(&g)
		next, ok := g.Taken(c.wants, g.Heard)
		if ok != c.fits || ok && next.FencingToken() != g.FencingToken()+1 {
			t.Errorf("%s: %t, token %d after %d", name, ok, next.FencingToken(), g.FencingToken())
		}
	}
}

// A streak that begins with a lease that lingered counts from now, and has the tokens that are left.
func TestStreakAfterAStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := lingering()
		g.HandOffs, g.HandedOn = 5, 3
		time.Sleep(time.Second)
		g.Heard = time.Now()
		var s handoff.Streak
		if _, begun := s.Begin(g, time.Now(), "", 0); !begun || !s.Holds(g) || s.Outlasted(time.Now()) {
			t.Fatalf("begun: %t, holds: %t", begun, s.Holds(g))
		}
		for ; s.Decide(g, ttl, time.Now()) == handoff.HandOn; g = s.Next(g, "") {
		}
		if g.HandedOn != g.HandOffs {
			t.Errorf("%d of %d tokens were used", g.HandedOn, g.HandOffs)
		}
	})
}
