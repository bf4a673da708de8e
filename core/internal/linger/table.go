package linger

import (
	"hash/maphash"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/keyturn/keyturn/core/internal/handoff"
	"github.com/keyturn/keyturn/core/internal/watchdog"
)

// Table has the leases of an engine that linger, by key. It is safe for concurrent use. Make one
// with [New].
type Table struct {
	dog    *watchdog.Watchdog
	most   int
	over   func(Left)
	epoch  atomic.Uint64 // see Epoch
	n      atomic.Int64  // leases that linger; most callers look at nothing else
	seed   maphash.Seed
	_      [64]byte // keeps what all callers read off the first shard's cache line
	shards [shardCount]shard
}

// shardCount is the number of shards. Callers of different keys then rarely meet on one mutex.
const shardCount = 32

// shard has the leases of some keys.
type shard struct {
	mu     sync.Mutex
	byKey  map[string]*Lease
	wanted map[string]struct{} // owners of leases that are wanted and do not linger at present
	closed bool

	_ [64]byte // keeps the next shard's mutex off this one's cache line
}

// mostWanted bounds the owners that a shard remembers. Most are of leases that are in use. When
// there are too many, all are forgotten: a message that a lease is wanted may get lost, and those
// that wait repeat it.
const mostWanted = 128

// New returns an empty table for that many leases at most. When a lease has ended while it lingered,
// because its time was over, it was lost, or a later one came, the table calls over, while no mutex is held.
func New(dog *watchdog.Watchdog, most int, over func(Left)) *Table {
	return &Table{dog: dog, most: most, over: over, seed: maphash.MakeSeed()}
}

// Epoch changes when messages may have been missed. A lease lingers only if the epoch is still
// that of the moment before its request was sent ([handoff.Origin]).
func (t *Table) Epoch() uint64 { return t.epoch.Load() }

// Any reports whether a lease lingers.
func (t *Table) Any() bool { return t.n.Load() > 0 }

func (t *Table) shardOf(key string) *shard {
	return &t.shards[maphash.String(t.seed, key)%shardCount]
}

// Keep keeps g, which its holder with that rule has just released, for d at most. It returns false if
// somebody wants g, if messages may have been missed, if a later lease of the key lingers or there is
// no room, and after Close: then g has to be given back. Otherwise the result is for [Table.Withdraw].
func (t *Table) Keep(g handoff.Grant, rule string, now time.Time, d time.Duration) (kept *Lease, ok bool) {
	if t.n.Load() >= int64(t.most) {
		return nil, false
	}
	s := &Lease{table: t, grant: g, rule: rule, began: now}
	s.watch.Begin(t.dog, s, &s.grant.Grant, g.Heard)
	if !s.watch.Start(now, d) {
		return nil, false
	}
	old, ok := t.shardOf(g.Claims[0].Key).add(s)
	if !ok {
		_, _ = s.watch.Release(errTaken)
		return nil, false
	}
	if l, was := left(old); was {
		t.over(l)
	}
	if s.over.Load() { // it was over before it was in the table
		t.ended(s)
	}
	return s, true
}

// add puts s in. A store that came back without its data may have granted the key twice. It knows
// only the later lease, so that one stays, and the result is the other.
func (h *shard) add(s *Lease) (old *Lease, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	key := s.grant.Claims[0].Key
	old = h.byKey[key]
	_, wanted := h.wanted[s.grant.Owner]
	delete(h.wanted, s.grant.Owner)
	if wanted || h.closed || s.grant.Origin.Epoch != s.table.Epoch() || old != nil && old.grant.Token > s.grant.Token {
		return nil, false
	}
	if s.table.n.Add(1) > int64(s.table.most) {
		s.table.n.Add(-1)
		return nil, false
	}
	if old != nil {
		h.removeLocked(s.table, key)
	}
	if h.byKey == nil {
		h.byKey = make(map[string]*Lease)
	}
	h.byKey[key] = s
	return old, true
}

// remove takes the lease of key out, if it is the one that is meant; nil: it is not there.
func (h *shard) remove(t *Table, key string, meant func(*Lease) bool) *Lease {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.byKey[key]
	if s == nil || !meant(s) {
		return nil
	}
	return h.removeLocked(t, key)
}

func (h *shard) removeLocked(t *Table, key string) *Lease {
	s := h.byKey[key]
	delete(h.byKey, key)
	t.n.Add(-1)
	return s
}

func anyLease(*Lease) bool { return true }

// Take takes the lease out that lingers on key, if there is one.
func (t *Table) Take(key string) (Left, bool) {
	return left(t.shardOf(key).remove(t, key, anyLease))
}

// Withdraw takes out what Keep has kept, unless it has been taken out by now.
func (t *Table) Withdraw(kept *Lease) bool {
	key := kept.grant.Claims[0].Key
	_, ok := left(t.shardOf(key).remove(t, key, func(s *Lease) bool { return s == kept }))
	return ok
}

// Want notes that owner's lease on key is wanted. If it lingers, it is taken out. If it is in use,
// or its grant is still on its way, it will not linger.
func (t *Table) Want(key, owner string) (Left, bool) {
	return left(t.shardOf(key).want(t, key, owner))
}

func (h *shard) want(t *Table, key, owner string) *Lease {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := h.byKey[key]; s != nil && s.grant.Owner == owner {
		return h.removeLocked(t, key)
	}
	if len(h.wanted) >= mostWanted || h.wanted == nil {
		h.wanted = make(map[string]struct{})
	}
	h.wanted[owner] = struct{}{}
	return nil
}

// Forget notes that owner's lease on key goes back to the store.
func (t *Table) Forget(key, owner string) {
	h := t.shardOf(key)
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.wanted, owner)
}

// Missed notes that messages may have been missed, and returns the keys on which leases linger.
// These leases must not stay: [Table.Stale] takes them out.
func (t *Table) Missed() (keys []string) {
	t.epoch.Add(1) // first: a lease that comes now is stale
	for i := range t.shards {
		keys = t.shards[i].appendKeys(keys)
	}
	return keys
}

func (h *shard) appendKeys(keys []string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.AppendSeq(keys, maps.Keys(h.byKey))
}

// Stale takes the lease out that lingers on key, if its epoch is over.
func (t *Table) Stale(key string) (Left, bool) {
	return left(t.shardOf(key).remove(t, key, func(s *Lease) bool { return s.grant.Origin.Epoch != t.Epoch() }))
}

// Close takes out all leases. From then on none lingers.
func (t *Table) Close() (all []Left) {
	for i := range t.shards {
		for _, s := range t.shards[i].close(t) {
			all = append(all, s.leave())
		}
	}
	return all
}

func (h *shard) close(t *Table) map[string]*Lease {
	h.mu.Lock()
	defer h.mu.Unlock()
	stays := h.byKey
	h.byKey, h.closed = nil, true
	t.n.Add(-int64(len(stays)))
	return stays
}

// ended is called when s has ended by itself. A caller that has taken it out knows that already.
func (t *Table) ended(s *Lease) {
	key := s.grant.Claims[0].Key
	if l, ok := left(t.shardOf(key).remove(t, key, func(in *Lease) bool { return in == s })); ok {
		t.over(l)
	}
}

func left(s *Lease) (Left, bool) {
	if s == nil {
		return Left{}, false
	}
	return s.leave(), true
}
