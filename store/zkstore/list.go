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

// defaultPage is how many keys List looks for if limit is below 1, and mostPage how many at most.
const (
	defaultPage = 100
	mostPage    = 1000
)

// bucketsPerPage bounds how many buckets a page looks into, so that a prefix that few keys have does
// not make a page of thousands of requests.
const bucketsPerPage = 512

// List implements [driver.Inspector]. Keys come in the order of the hashes by which they are spread
// over nodes. If cursor is not one of this store's, the error matches driver.ErrInvalidOption.
func (s *Store) List(ctx context.Context, prefix, cursor string, limit int) ([]driver.LockInfo, string, error) {
	after, ok := cursorOf(cursor)
	if !ok {
		return nil, "", &driver.OptionError{Option: "List", Value: cursor, Want: "a cursor that List returned"}
	}
	if limit < 1 {
		limit = defaultPage
	}
	p, err := casstore.Call(ctx, &s.ops, "list", "", func(ctx context.Context) (page, error) {
		return retry(ctx, s, func(p *peer) (page, error) { return s.page(p, prefix, after, min(limit, mostPage)) })
	})
	return p.infos, p.next, err
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
	_, valid := unescape(name)
	return position{bucket, name}, ok && valid
}

// page is an answer of List.
type page struct {
	infos []driver.LockInfo
	next  string
}

// page looks into one bucket after the other until it has found enough keys.
func (s *Store) page(p *peer, prefix string, after position, limit int) (pg page, err error) {
	if _, err := p.Sync(s.cfg.root); err != nil {
		return pg, err
	}
	buckets, err := s.childrenOf(p, s.cfg.root+bucketsNode)
	if err != nil {
		return pg, err
	}
	slices.Sort(buckets)
	buckets = buckets[bucketAt(buckets, after.bucket):]
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
			if key, ok := unescape(name); ok && strings.HasPrefix(key, prefix) {
				keys = append(keys, key)
			}
			if len(keys) == limit {
				pg.next = position{bucket, name}.String()
				break
			}
		}
		if pg.next == "" && i+1 == bucketsPerPage && i+1 < len(buckets) {
			last := ""
			if len(names) > 0 {
				last = names[len(names)-1]
			}
			pg.next = position{bucket, last}.String()
		}
		if pg.next != "" {
			break
		}
	}
	infos := make([]driver.LockInfo, len(keys))
	err = together(len(keys), func(i int) (err error) {
		infos[i], err = s.inspect(p, keys[i], false)
		return err
	})
	pg.infos = slices.DeleteFunc(infos, driver.LockInfo.IsFree)
	return pg, err
}

// bucketAt is the index of the first bucket that is not before the one named.
func bucketAt(buckets []string, bucket string) int {
	i, _ := slices.BinarySearch(buckets, bucket)
	return i
}

// childrenOf returns the names of the children of a node that need not be there.
func (s *Store) childrenOf(p *peer, path string) ([]string, error) {
	names, _, err := p.Children(path)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	return names, err
}
