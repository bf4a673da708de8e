package memstore

import (
	"hash/maphash"
	"math/bits"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/keystate"
)

// memory is what the stores of one family share. It has shards, so that callers of different
// keys rarely meet on one mutex. A key is always in the same shard.
type memory struct {
	seed   maphash.Seed
	_      apart
	shards [64]shard // as many as a locked has bits
}

// apart keeps what is before it and what is behind it on different cache lines. Otherwise a
// processor that writes the one makes the others fetch the other again.
type apart [64]byte

func newMemory() *memory {
	m := &memory{seed: maphash.MakeSeed()}
	for i := range m.shards {
		m.shards[i].init()
	}
	return m
}

func (m *memory) index(key string) uint64 {
	return maphash.String(m.seed, key) % uint64(len(m.shards))
}

func (m *memory) shard(key string) *shard { return &m.shards[m.index(key)] }

// locked says which shards are locked, with one bit for each.
type locked uint64

// begin makes everything until end one atomic step for all of claims, whose keys st then has. The shards
// are locked in their own order, whatever the order of the keys, so that no two steps deadlock.
func (m *memory) begin(st *keystate.State, claims []driver.Claim) locked {
	if len(claims) == 1 { // most calls take this path, at half the cost
		i := m.index(claims[0].Key)
		s := &m.shards[i]
		s.mu.Lock()
		st.Keys, st.Woken = s.open(claims[0].Key).only[:], s.woken
		return 1 << i
	}
	var set locked
	for _, c := range claims {
		set |= 1 << m.index(c.Key)
	}
	for left := set; left != 0; left &= left - 1 {
		m.shards[bits.TrailingZeros64(uint64(left))].mu.Lock()
	}
	st.Keys, st.Woken = make([]*keystate.Key, len(claims)), nil
	for i, c := range claims {
		st.Keys[i] = &m.shard(c.Key).open(c.Key).Key
	}
	return set
}

// end is the end of the step: it wakes those that were let in, and forgets the keys that nobody uses.
func (m *memory) end(set locked, st *keystate.State) {
	for _, k := range st.Keys {
		e := k.Ref.(*entry)
		if len(st.Woken) > 0 {
			wake(st)
			clear(st.Woken)
			st.Woken = st.Woken[:0]
			e.shard.woken = st.Woken
		}
		e.used(st.Now)
	}
	for ; set != 0; set &= set - 1 {
		m.shards[bits.TrailingZeros64(uint64(set))].mu.Unlock()
	}
}

// step runs decide as one step about claims. The calls that must be quickest do without it.
func (m *memory) step(claims []driver.Claim, decide func(*keystate.State)) {
	st := keystate.State{Now: time.Now()}
	defer m.end(m.begin(&st, claims), &st)
	decide(&st)
}
