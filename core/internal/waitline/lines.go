package waitline

import (
	"hash/maphash"
	"sync/atomic"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// Config is what the lines of an engine have to keep to.
type Config struct {
	MaxWaiters      int // in one line
	MaxWaitersTotal int // that wait in all lines
	// FairTime is how long a store must have been silent before that counts as an outage.
	FairTime time.Duration
}

// Lines are all the lines of an engine. Safe for concurrent use.
type Lines struct {
	cfg     Config
	waiting atomic.Int64 // callers that have had to wait and were not called forward yet
	seed    maphash.Seed
	shards  [shardCount]shard
}

// New returns lines in which nobody stands.
func New(cfg Config) *Lines {
	ls := &Lines{cfg: cfg, seed: maphash.MakeSeed()}
	for i := range ls.shards {
		ls.shards[i].lines = ls
	}
	return ls
}

// Close has everybody that waits give up, and lets nobody in any more.
func (ls *Lines) Close() {
	for i := range ls.shards {
		ls.shards[i].close()
	}
}

// Len is how many lines there are.
func (ls *Lines) Len() (n int) {
	for i := range ls.shards {
		s := &ls.shards[i]
		s.mu.Lock()
		n += len(s.byKey)
		s.mu.Unlock()
	}
	return n
}

// Waiting is how many callers wait in line, without those that ask the store.
func (ls *Lines) Waiting() int { return int(ls.waiting.Load()) }

// Holder completes what the store said of the holder of a key: if its lease went from
// caller to caller in this process, the store knows only the first of them.
func (ls *Lines) Holder(held driver.HeldError) driver.HeldError {
	if held.Holder == "" {
		return held
	}
	s := ls.shardOf(held.Key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.byKey[held.Key]; l != nil {
		if owner, trace := l.streak.Owner(); owner == held.Holder {
			held.Trace, held.HeldFor = trace, l.evidence.heldFor()
		}
	}
	return held
}

func (ls *Lines) shardOf(key string) *shard {
	return &ls.shards[maphash.String(ls.seed, key)%shardCount]
}
