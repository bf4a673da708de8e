package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/waitloop"
	"github.com/keyturn/keyturn/store/internal/onredis"
)

// List implements [driver.Inspector], by SCAN. On a Cluster or Ring it goes through one master
// after the other, in the order of their addresses or names. A key that moves from one master
// to another meanwhile may be missed. A key may come on several pages. A key that is no lock,
// because it holds another type, is left out. A limit of 0 or less is 100.
func (s *Store) List(ctx context.Context, q driver.Listing) (page []driver.LockInfo, next string, err error) {
	if q.Limit <= 0 {
		q.Limit = onredis.ListDefault
	}
	name, at, err := parseCursor(q.Cursor)
	if err != nil {
		return nil, "", err
	}
	if err := s.calls.Enter(); err != nil {
		return nil, "", err
	}
	defer s.calls.Leave()
	// SCAN is no script, so it does not go through send. It may hang as well.
	var found scanned
	err, answered := waitloop.Await(ctx, s.calls.Go, func() (err error) {
		found, err = s.scan(ctx, q, name, at)
		return err
	}, nil)
	switch {
	case !answered:
		return nil, "", &driver.UnavailableError{Op: "list", Err: silence(ctx)}
	case err != nil:
		return nil, "", failure("list", q.Prefix, err)
	}
	for some := range slices.Chunk(found.keys, onredis.ListDefault) {
		infos, errs := s.inspect(ctx, some)
		for i, info := range infos {
			switch {
			case errors.Is(errs[i], ErrWrongType):
				continue
			case errs[i] != nil:
				return nil, "", errs[i]
			case q.Shows(info):
				page = append(page, info)
			}
		}
	}
	return page, found.next, nil
}

// A cursor is "name of the node|cursor of its SCAN".
func parseCursor(cursor string) (name string, at uint64, err error) {
	if cursor == "" {
		return "", 0, nil
	}
	i := strings.LastIndexByte(cursor, '|')
	at, err = strconv.ParseUint(cursor[i+1:], 10, 64)
	if i < 0 || err != nil {
		return "", 0, &driver.OptionError{Option: "cursor", Value: cursor[:min(len(cursor), 64)], Want: "a cursor that List returned"}
	}
	return cursor[:i], at, nil
}

// node is a server that has keys of its own.
type node struct {
	name   string
	client redis.Cmdable
}

// nodes lists the servers, in the order of their names.
func (s *Store) nodes(ctx context.Context) ([]node, error) {
	var mu sync.Mutex
	var all []node
	add := func(_ context.Context, c *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, node{name: c.Options().Addr, client: c})
		return nil
	}
	var err error
	switch client := s.client.(type) {
	case *redis.ClusterClient:
		err = client.ForEachMaster(ctx, add)
	case *redis.Ring:
		err = client.ForEachShard(ctx, add)
	default:
		return []node{{client: s.client}}, nil
	}
	slices.SortFunc(all, func(a, b node) int { return cmp.Compare(a.name, b.name) })
	return all, err
}

// scanned are keys, and the cursor of those that follow.
type scanned struct {
	keys []string
	next string
}

// scan collects about as many keys as a page has, from where the cursor points.
func (s *Store) scan(ctx context.Context, q driver.Listing, name string, at uint64) (found scanned, err error) {
	nodes, err := s.nodes(ctx)
	if err != nil {
		return found, err
	}
	// If the node of the cursor is gone, the next one continues.
	nodes = slices.DeleteFunc(nodes, func(n node) bool { return n.name < name })
	// One pattern finds both plain keys and side keys, which begin with a brace.
	pattern := "*" + onredis.Glob(s.keys.Lock(q.Prefix)) + "*"
	seen := make(map[string]bool)
	count := min(q.Limit, onredis.ScanMost)
	for range onredis.ScansPerPage {
		if len(nodes) == 0 {
			return found, nil
		}
		if nodes[0].name != name {
			name, at = nodes[0].name, 0
		}
		names, to, err := nodes[0].client.Scan(ctx, at, pattern, int64(count)).Result()
		if err != nil {
			return found, err
		}
		before := len(found.keys)
		for _, n := range names {
			key, ok := s.keys.KeyOf(n, q.Records)
			if ok && strings.HasPrefix(key, q.Prefix) && !seen[key] {
				seen[key] = true
				found.keys = append(found.keys, key)
			}
		}
		if len(found.keys) == before {
			count = min(2*count, onredis.ScanMost)
		}
		if at = to; at == 0 {
			if nodes = nodes[1:]; len(nodes) == 0 {
				return found, nil
			}
			name = nodes[0].name
		}
		if len(found.keys) >= q.Limit {
			break
		}
	}
	found.next = fmt.Sprintf("%s|%d", name, at)
	return found, nil
}
