package redlock

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/hooked"
	"github.com/keyturn/keyturn/store/internal/onredis"
)

// List implements [driver.Inspector], by SCAN on as many nodes as a lease in force can't avoid. Nodes
// that can't be reached are left out while enough others are there. A key may come on several
// pages. A limit of 0 or less is 100.
func (s *Store) List(ctx context.Context, q driver.Listing) ([]driver.LockInfo, string, error) {
	limit := q.Limit
	if limit <= 0 {
		limit = onredis.ListDefault
	}
	c, err := parseCursor(q.Cursor)
	if err != nil {
		return nil, "", err
	}
	if err := s.calls.Enter(); err != nil {
		return nil, "", err
	}
	defer s.calls.Leave()
	keys, c, err := s.scan(ctx, q.Prefix, c, limit)
	if err != nil {
		return nil, "", err
	}
	var page []driver.LockInfo
	for some := range slices.Chunk(keys, onredis.ListDefault) {
		infos, err := s.inspect(ctx, some, false)
		if err != nil {
			return nil, "", err
		}
		for _, info := range infos {
			if len(info.Holders) > 0 {
				page = append(page, info)
			}
		}
	}
	// A lease in force is on a quorum, so each set of N-q+1 nodes has one that shows it.
	if c.scanned > len(s.nodes)-s.cfg.quorum {
		return page, "", nil
	}
	return page, c.String(), nil
}

// listCursor is where a listing goes on.
type listCursor struct {
	node, scanned int // the node, and how many nodes are done
	at            uint64
}

func (c listCursor) String() string { return fmt.Sprintf("%d|%d|%d", c.node, c.scanned, c.at) }

func parseCursor(cursor string) (c listCursor, err error) {
	if cursor == "" {
		return c, nil
	}
	bad := &driver.OptionError{Option: "cursor", Value: cursor[:min(len(cursor), 64)], Want: "a cursor that List returned"}
	parts := strings.Split(cursor, "|")
	if len(parts) != 3 {
		return c, bad
	}
	for i, to := range []*int{&c.node, &c.scanned} {
		if *to, err = strconv.Atoi(parts[i]); err != nil || *to < 0 {
			return c, bad
		}
	}
	if c.at, err = strconv.ParseUint(parts[2], 10, 64); err != nil {
		return c, bad
	}
	return c, nil
}

// scan collects about limit keys from where the cursor points.
func (s *Store) scan(ctx context.Context, prefix string, c listCursor, limit int) ([]string, listCursor, error) {
	var keys []string
	seen := make(map[string]bool)
	pattern := onredis.Glob(s.names.Lock(prefix)) + "*"
	errs := make([]error, len(s.nodes))
	count := min(limit, onredis.ScanMost)
	for range onredis.ScansPerPage {
		if c.scanned > len(s.nodes)-s.cfg.quorum {
			return keys, c, nil
		}
		if c.node >= len(s.nodes) {
			return nil, c, s.noQuorum("list", prefix, errs)
		}
		// A node that hangs is given up after its timeout, not after the caller's.
		client := hooked.WithTimeout(s.clients[c.node], connTimeout)
		names, next, err := client.Scan(ctx, c.at, pattern, int64(count)).Result()
		if err != nil {
			errs[c.node] = err
			c.node, c.at = c.node+1, 0
			continue
		}
		for _, name := range names {
			if key, ok := s.names.KeyOf(name); ok && strings.HasPrefix(key, prefix) && !seen[key] {
				seen[key] = true
				keys = append(keys, key)
			}
		}
		if len(names) == 0 {
			count = min(2*count, onredis.ScanMost)
		}
		if c.at = next; next == 0 {
			c.node, c.scanned = c.node+1, c.scanned+1
		}
		if len(keys) >= limit {
			break
		}
	}
	return keys, c, nil
}
