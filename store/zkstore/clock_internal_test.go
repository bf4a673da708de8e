package zkstore

import (
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/keyturn/keyturn/internal/checktest"
)

var check, require = checktest.That, checktest.Require

// stampOf is the answer to a write of that epoch, at that millisecond.
func stampOf(epoch, count, ms int64) *zk.Stat { return &zk.Stat{Mzxid: epoch<<32 | count, Mtime: ms} }

// Stamps of two leaders are not compared: their clocks may differ by hours.
func TestStampsOfTwoLeaders(t *testing.T) {
	var c clock
	if _, known := c.now(); known {
		t.Error("a clock that has seen no stamp knows the time")
	}
	c.note(stampOf(1, 5, 1000))
	c.note(stampOf(1, 4, 900)) // an answer that comes late
	now, known := c.now()
	require(t, known && now.now >= 1_000_000 && now.now <= 60_000_000, "after a stamp of 1 s it is %d µs", now.now)
	const term = 10_000_000
	lease := stampOf(1, 5, 1000)
	ends := now.ends(lease, term)
	check(t, ends == 1_000_000+term, "under its own leader the lease ends at %d", ends)

	for name, first := range map[string]int64{"ahead": 100_000, "behind": 500} {
		var next clock
		next.note(stampOf(1, 5, 1000))
		next.note(stampOf(2, 1, first))
		next.note(stampOf(2, 2, first+3000))
		now, _ := next.now()
		if ends := now.ends(lease, term); ends != first*1000+term {
			t.Errorf("a lease of the leader before, when the next one's clock is %s: it ends at %d, want a term after the first stamp, %d", name, ends, first*1000+term)
		}
		ends = now.ends(stampOf(2, 2, first+3000), term)
		check(t, ends == (first+3000)*1000+term, "a lease that was renewed under the next leader ends at %d", ends)
	}
}

// A clock that the leader sets back counts from its latest stamp, not from the greatest.
func TestLeaderSetsItsClockBack(t *testing.T) {
	var c clock
	c.note(stampOf(1, 1, 3_600_000))
	c.note(stampOf(1, 2, 1000))
	now, _ := c.now()
	check(t, now.now <= 60_000_000, "after the clock was set back to 1 s it is %d µs", now.now)
}
