package memstore

import (
	"hash/maphash"

	"github.com/keyturn/keyturn/core"
)

// memory is what the stores of one family share, in shards that do not get in
// each other's way. A key is always in the same one.
type memory struct {
	seed   maphash.Seed
	shards [64]shard
}

func newMemory() *memory {
	m := &memory{seed: maphash.MakeSeed()}
	for i := range m.shards {
		m.shards[i].init()
	}
	return m
}

// shard returns where the key of claims is; here all claims are of one key.
func (m *memory) shard(claims []core.Claim) *shard {
	if len(claims) == 0 {
		return &m.shards[0] // never granted, so not found there either
	}
	return &m.shards[maphash.String(m.seed, claims[0].Key)%uint64(len(m.shards))]
}
