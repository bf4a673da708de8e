package zkstore

import (
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/keyturn/keyturn/internal/keystate"
)

// micros is a time by the leader's clock, or a duration, in microseconds.
type micros = int64

var toMicros, fromMicros = keystate.ToMicros, keystate.FromMicros

// clock follows the clock of the ensemble's leader, by the stamps that the leader puts on what it
// writes. A stamp and the time since its answer are never ahead of the leader's clock.
//
// Stamps of two leaders are not compared, because their clocks may differ. The upper half of a
// transaction's id, its epoch, says whose it is.
type clock struct {
	mu    sync.Mutex
	zxid  int64 // of the last stamp; 0: none was seen
	stamp micros
	at    time.Time // when its answer came
	first micros    // the first stamp of this epoch that was seen
}

// epochOf returns the epoch of a transaction.
func epochOf(zxid int64) int64 { return zxid >> 32 }

// note takes the stamp of a write whose answer has just come.
func (c *clock) note(stat *zk.Stat) {
	if stat == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if stat.Mzxid <= c.zxid {
		return // answers may be noted in another order than that of the writes
	}
	stamp := stat.Mtime * 1000
	if c.zxid == 0 || epochOf(stat.Mzxid) != epochOf(c.zxid) {
		c.first = stamp
	}
	c.zxid, c.stamp, c.at = stat.Mzxid, stamp, time.Now()
}

// clear forgets all stamps.
func (c *clock) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.zxid, c.stamp, c.at, c.first = 0, 0, time.Time{}, 0
}

// moment is a time by the leader's clock.
type moment struct {
	now   micros
	epoch int64
	first micros // of that epoch, as far as this process has seen
}

// now returns a time that is not after the leader's. It returns false if no stamp was seen yet.
func (c *clock) now() (moment, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := moment{now: c.stamp + time.Since(c.at).Microseconds(), epoch: epochOf(c.zxid), first: c.first}
	return m, c.zxid != 0
}

// ends says when a lease ends that lasts for term after the last write of its node. A lease that
// was last renewed under an earlier leader lasts for as long after the first stamp that was seen of
// the present one.
func (m moment) ends(stat *zk.Stat, term micros) micros {
	if epochOf(stat.Mzxid) < m.epoch {
		return m.first + term
	}
	return stat.Mtime*1000 + term
}

// doubts reports whether a lease seems to be over, or was renewed under a leader that is not known yet. Then the
// moment is too old a one to decide by.
func (m moment) doubts(n *node) bool {
	return epochOf(n.stat.Mzxid) > m.epoch || m.ends(n.stat, n.data.Term) <= m.now
}

// wallEnds is for what is kept for hours, such as records. The clocks of two leaders differ by much
// less, so they are compared.
func wallEnds(stat *zk.Stat, term micros) micros { return stat.Mtime*1000 + term }
