package redisstore_test

import (
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/redistest"
)

// A grant says whether others wait at the store: else a process that passes its
// leases on from hand to hand would not know when to stop.
func TestGrantSaysWhetherOthersWait(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	a, b, c := open(t, server.Client()), open(t, server.Client()), open(t, server.Client())
	first := lock(t, a, "first", "k", time.Minute)
	if first.Contended {
		t.Error("the first: somebody waits")
	}
	second := enqueue(t, b, "second", "k", time.Minute)
	third := enqueue(t, c, "third", "k", time.Minute)
	release(t, a, first)
	g := second.granted(5 * time.Second)
	if !g.Contended {
		t.Error("the second: nobody waits")
	}
	release(t, b, g)
	g = third.granted(5 * time.Second)
	if !g.Contended {
		t.Error("the third: whoever had it before may get back in line at any moment")
	}
	release(t, c, g)
	if g := lock(t, a, "fourth", "k", time.Minute); g.Contended {
		t.Error("the fourth: somebody waits")
	}
}
