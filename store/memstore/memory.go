package memstore

import (
	"hash/maphash"
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// memory is what the stores of one family share, in shards that do not get in
// each other's way. A key is always in the same one.
type memory struct {
	seed   maphash.Seed
	last   atomic.Uint64 // the greatest token given so far
	shards [64]shard     // as many as locked has bits
}

func newMemory() *memory {
	m := &memory{seed: maphash.MakeSeed()}
	for i := range m.shards {
		m.shards[i].init(m)
	}
	return m
}

func (m *memory) index(key string) uint64 {
	return maphash.String(m.seed, key) % uint64(len(m.shards))
}

func (m *memory) shard(key string) *shard { return &m.shards[m.index(key)] }

// locked is which shards are locked, one bit for each.
type locked uint64

// lock makes what follows, until unlock, one atomic step for all of claims. The
// shards are locked in their own order, whatever that of the keys: so no two
// steps wait for each other.
func (m *memory) lock(claims []driver.Claim) locked {
	var set locked
	for _, c := range claims {
		set |= 1 << m.index(c.Key)
	}
	for left := set; left != 0; left &= left - 1 {
		m.shards[bits.TrailingZeros64(uint64(left))].mu.Lock()
	}
	return set
}

func (m *memory) unlock(set locked) {
	for ; set != 0; set &= set - 1 {
		m.shards[bits.TrailingZeros64(uint64(set))].mu.Unlock()
	}
}

// nextToken rises with the clock, as a store's does that can lose its data, so
// that tokens of an earlier process are behind those of this one. All shards
// have them from here: the token of a set must be greater than any of each key.
func (m *memory) nextToken(now time.Time) uint64 {
	for {
		last := m.last.Load()
		next := max(last+1, uint64(now.UnixMicro()))
		if m.last.CompareAndSwap(last, next) {
			return next
		}
	}
}
