package zkstore

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/casstore"
)

// mostPage is how many keys List looks for at most.
const mostPage = 1000

// bucketsPerPage bounds how many buckets a page looks into, so that a prefix that few keys have does
// not make a page of thousands of requests.
const bucketsPerPage = 512

// List implements [driver.Inspector]. Keys come in the order of the hashes by which they are spread
// over nodes. If cursor is not one of this store's, the error matches driver.ErrInvalidOption.
func (s *Store) List(ctx context.Context, q driver.Listing) ([]driver.LockInfo, string, error) {
	after, ok := cursorOf(q.Cursor)
	if !ok {
		return nil, "", &driver.OptionError{Option: "List", Value: q.Cursor, Want: "a cursor that List returned"}
	}
	return s.ops.List(ctx, q, mostPage, func(ctx context.Context, q driver.Listing) ([]driver.LockInfo, string, error) {
		p, err := retry(ctx, s, func(p *peer) (page, error) { return s.page(p, q, after) })
		return p.infos, p.next, err
	})
}

// position is where a page has ended: the bucket, and the last name in it. The zero value is the
// beginning.
type position struct{ bucket, name string }

const cursorMark = "/"

func (p position) String() string { return p.bucket + cursorMark + p.name }

func cursorOf(cursor string) (position, bool) {
	if cursor == "" {
		return position{}, true
	}
	bucket, name, ok := strings.Cut(cursor, cursorMark)
	if len(bucket) != bucketDigits || strings.Trim(bucket, "0123456789abcdef") != "" {
		return position{}, false
	}
	_, valid := lockNames.Key(name)
	return position{bucket, name}, ok && valid
}

// page is an answer of List.
type page struct {
	infos []driver.LockInfo
	next  string
}

// page looks into one bucket after the other until it has found enough keys.
func (s *Store) page(p *peer, q driver.Listing, after position) (pg page, err error) {
	if _, err := p.Sync(s.cfg.root); err != nil {
		return pg, err
	}
	buckets, err := s.childrenOf(p, s.cfg.root+bucketsNode)
	if err != nil {
		return pg, err
	}
	slices.Sort(buckets)
	first, _ := slices.BinarySearch(buckets, after.bucket)
	buckets = buckets[first:]
	var keys []string
	for i, bucket := range buckets {
		names, err := s.childrenOf(p, s.bucketPath(bucket))
		if err != nil {
			return pg, err
		}
		slices.Sort(names)
		for _, name := range names {
			if bucket == after.bucket && name <= after.name {
				continue
			}
			if key, ok := lockNames.Key(name); ok && strings.HasPrefix(key, q.Prefix) {
				keys = append(keys, key)
			}
			if len(keys) == q.Limit {
				pg.next = position{bucket, name}.String()
				break
			}
		}
		if pg.next == "" && i+1 == bucketsPerPage && i+1 < len(buckets) {
			pg.next = position{bucket: buckets[i+1]}.String()
		}
		if pg.next != "" {
			break
		}
	}
	if !q.Records {
		if keys, err = s.inUse(p, keys); err != nil {
			return pg, err
		}
	}
	pg.infos, err = s.inspectAll(p, keys, false)
	return pg, err
}

// inUse returns the keys that somebody holds or waits for.
func (s *Store) inUse(p *peer, keys []string) ([]string, error) {
	some := make([]bool, len(keys))
	err := casstore.Parallel(len(keys), func(i int) error {
		names, err := s.childrenOf(p, s.lockPath(keys[i]))
		below := parseChildren(names)
		some[i] = len(below.holders)+len(below.waiters) > 0
		return err
	})
	var used []string
	for i, key := range keys {
		if some[i] {
			used = append(used, key)
		}
	}
	return used, err
}

// childrenOf returns the names of the children of a node that need not be there.
func (s *Store) childrenOf(p *peer, path string) ([]string, error) {
	names, _, err := p.Children(path)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	return names, err
}
