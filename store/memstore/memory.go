package memstore

import (
	"hash/maphash"
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// memory is what the stores of one family share. It has shards, so that callers of different
// keys rarely meet on one mutex. A key is always in the same shard.
type memory struct {
	seed   maphash.Seed
	_      apart
	last   atomic.Uint64 // the greatest token that was given or reserved so far
	_      apart
	shards [64]shard // as many as a locked has bits
}

// apart keeps what is before it and what is behind it on different cache lines. Otherwise a
// processor that writes the one makes the others fetch the other again.
type apart [64]byte

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

// locked says which shards are locked, with one bit for each.
type locked uint64

// lock makes everything until unlock one atomic step for all of claims. The shards are locked
// in their own order, whatever the order of the keys, so that no two steps deadlock.
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

// take takes a token, and the tokens after it that a grant may reserve: wanted of them, or
// fewer. Tokens go with the clock, as they do in a store that can lose its data, so those of
// an earlier process are smaller than those of this one. All shards take theirs here, because
// the token of a set must be greater than those of each of its keys.
func (m *memory) take(now time.Time, wanted uint64) (token, reserved uint64) {
	for {
		last := m.last.Load()
		token, reserved = driver.NextTokens(last, now, wanted)
		if m.last.CompareAndSwap(last, token+reserved) {
			return token, reserved
		}
	}
}
