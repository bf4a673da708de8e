package waitline

import (
	"hash/maphash"
	"sync/atomic"

	"github.com/keyturn/keyturn/core/driver"
)

// Config has the limits of an engine's lines.
type Config struct {
	MaxWaiters      int // callers in one line
	MaxWaitersTotal int // callers that wait in all lines together
}

// Lines are all the lines of an engine. They are safe for concurrent use.
type Lines struct {
	cfg     Config
	waiting atomic.Int64 // callers that have to wait and were not admitted yet
	seed    maphash.Seed
	_       [64]byte // keeps what all callers read off the first shard's cache line
	shards  [shardCount]shard
}

// New returns lines without callers.
func New(cfg Config) *Lines {
	ls := &Lines{cfg: cfg, seed: maphash.MakeSeed()}
	for i := range ls.shards {
		ls.shards[i].lines = ls
	}
	return ls
}

// Close makes every waiting caller give up, and refuses callers from then on.
func (ls *Lines) Close() {
	for i := range ls.shards {
		ls.shards[i].close()
	}
}

// Len is the number of lines.
func (ls *Lines) Len() (n int) {
	for i := range ls.shards {
		s := &ls.shards[i]
		s.mu.Lock()
		n += len(s.byKey)
		s.mu.Unlock()
	}
	return n
}

// Waiting is the number of callers that wait in line. Callers that ask the store do not count.
func (ls *Lines) Waiting() int { return int(ls.waiting.Load()) }

// Holder completes what the store said about the holder of a key. If a lease was handed on
// within this process, the store knows only its first holder.
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
