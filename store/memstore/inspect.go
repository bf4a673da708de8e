package memstore

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// Inspect implements [driver.Inspector].
func (s *Store) Inspect(_ context.Context, key string) (driver.LockInfo, error) {
	return s.mem.shard(key).inspect(key), nil
}

// defaultPage is how many keys List looks for if limit is below 1.
const defaultPage = 100

// List implements [driver.Inspector]. Keys come in no particular order. If cursor is not one of
// this store's, the error matches driver.ErrInvalidOption.
func (s *Store) List(ctx context.Context, prefix, cursor string, limit int) ([]driver.LockInfo, string, error) {
	at, after, err := parseCursor(cursor, len(s.mem.shards))
	if err != nil {
		return nil, "", err
	}
	if limit < 1 {
		limit = defaultPage
	}
	var page []driver.LockInfo
	for ; at < len(s.mem.shards); at, after = at+1, "" {
		if err := ctx.Err(); err != nil {
			return nil, "", err
		}
		shard := &s.mem.shards[at]
		for _, key := range shard.keys(prefix, after) {
			if len(page) >= limit {
				return page, formatCursor(at, after), nil
			}
			if info := shard.inspect(key); !info.IsFree() {
				page = append(page, info)
			}
			after = key
		}
	}
	return page, "", nil
}

// A cursor is a shard's number and the last key that was listed from that shard.
func formatCursor(at int, after string) string { return strconv.Itoa(at) + "/" + after }

func parseCursor(cursor string, shards int) (at int, after string, err error) {
	if cursor == "" {
		return 0, "", nil
	}
	nr, after, ok := strings.Cut(cursor, "/")
	at, err = strconv.Atoi(nr)
	if !ok || err != nil || at < 0 || at >= shards {
		return 0, "", &driver.OptionError{Option: "List", Value: cursor, Want: "a cursor that List returned"}
	}
	return at, after, nil
}

// ForceRelease implements [driver.Inspector]. Owners can learn the reason for an hour.
func (s *Store) ForceRelease(_ context.Context, key, reason string, only ...driver.Holder) ([]driver.Holder, error) {
	gone, lender, err := s.mem.shard(key).forceAll(key, reason, only)
	lender.tell()
	return gone, err
}

// Forget implements [driver.Inspector].
func (s *Store) Forget(_ context.Context, key string) (bool, error) {
	shard := s.mem.shard(key)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	now := time.Now()
	had := shard.records[key].inForce(now) || shard.versions[key].at(now) > 0
	delete(shard.records, key)
	delete(shard.versions, key)
	return had, nil
}

// keys returns the keys in use that begin with prefix and come after the key after, in order.
// It locks.
func (s *shard) keys(prefix, after string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var keys []string
	add := func(key string) {
		if key > after && strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	for key := range s.entries {
		add(key)
	}
	for key := range s.records {
		if s.entries[key] == nil {
			add(key)
		}
	}
	slices.Sort(keys)
	return keys
}

// inspect shows key. It locks.
func (s *shard) inspect(key string) driver.LockInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, info := time.Now(), driver.LockInfo{Key: key}
	if e := s.live(key, now); e != nil {
		info.Mode, info.Holders, info.Waiters = e.phase.Mode, e.show(now), e.showWaiting(now)
	}
	if r, ok := s.records[key]; ok && r.inForce(now) {
		info.Record = &driver.RecordInfo{Owner: r.owner, Size: len(r.Result), ResultNotKept: r.ResultNotKept, Trace: r.Trace, Left: r.expires.Sub(now)}
	}
	return info
}

func (e *entry) show(now time.Time) []driver.Holder {
	holders := make([]driver.Holder, 0, len(e.holders))
	for _, h := range e.holders {
		holders = append(holders, driver.Holder{
			Owner: h.owner, Token: h.token, Rule: h.rule, Trace: h.trace,
			HeldFor: now.Sub(h.since), Left: h.expires.Sub(now), Lingers: h.wanted != nil && e.phase.Mode == driver.ModeExclusive,
		})
	}
	return holders
}

func (e *entry) showWaiting(now time.Time) []driver.Waiter {
	var all []*waiter
	for _, q := range []*queue{&e.line, &e.readers} {
		for w := q.front; w != nil; w = w.next {
			all = append(all, w)
		}
	}
	slices.SortFunc(all, func(a, b *waiter) int { return cmp.Compare(a.nr, b.nr) })
	var waiters []driver.Waiter
	for _, w := range all {
		waiters = append(waiters, driver.Waiter{
			Owner: w.req.Owner, Mode: w.claim.Mode, Permits: w.claim.Permits,
			Rule: w.req.Rule, Trace: w.req.Trace, Waited: now.Sub(w.since),
		})
	}
	return waiters
}
