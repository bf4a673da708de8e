package memstore

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/keystate"
)

// Inspect implements [driver.Inspector].
func (s *Store) Inspect(_ context.Context, key string) (driver.LockInfo, error) {
	return s.mem.inspect(key), nil
}

// defaultPage is how many keys List looks for if limit is below 1.
const defaultPage = 100

// List implements [driver.Inspector]. Keys come in no particular order. If cursor is not one of
// this store's, the error matches driver.ErrInvalidOption.
func (s *Store) List(ctx context.Context, q driver.Listing) ([]driver.LockInfo, string, error) {
	at, after, err := parseCursor(q.Cursor, len(s.mem.shards))
	if err != nil {
		return nil, "", err
	}
	limit := q.Limit
	if limit < 1 {
		limit = defaultPage
	}
	var page []driver.LockInfo
	for ; at < len(s.mem.shards); at, after = at+1, "" {
		if err := ctx.Err(); err != nil {
			return nil, "", err
		}
		shard := &s.mem.shards[at]
		for _, key := range shard.keys(q, after) {
			if len(page) >= limit {
				return page, formatCursor(at, after), nil
			}
			if info := s.mem.inspect(key); q.Shows(info) {
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
func (s *Store) ForceRelease(_ context.Context, key, reason string, only ...driver.Holder) (gone []driver.Holder, err error) {
	var wanted *keystate.Wanted
	s.mem.step([]driver.Claim{{Key: key}}, func(st *keystate.State) {
		gone, err = st.Force(st.Keys[0], reason, only)
		for _, f := range st.Forced {
			s.mem.shard(key).forced.add(f, st.Now)
		}
		wanted = st.Wanted
	})
	tell(wanted)
	return gone, err
}

// keys returns the keys in use that q may show and that come after the key after, in order. It locks.
func (s *shard) keys(q driver.Listing, after string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var keys []string
	add := func(key string) {
		if key > after && strings.HasPrefix(key, q.Prefix) {
			keys = append(keys, key)
		}
	}
	for key := range s.entries {
		add(key)
	}
	if q.Records {
		for key := range s.records {
			if s.entries[key] == nil {
				add(key)
			}
		}
	}
	slices.Sort(keys)
	return keys
}

// inspect shows key. It locks.
func (m *memory) inspect(key string) (info driver.LockInfo) {
	m.step([]driver.Claim{{Key: key}}, func(st *keystate.State) {
		_ = st.Settle() // it fails only in a store that reads its waiters late
		info = st.Show(st.Keys[0])
	})
	return info
}
