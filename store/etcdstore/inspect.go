package etcdstore

import (
	"context"
	"encoding/hex"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/casstore"
)

// Inspect implements [driver.Inspector]. HeldFor and Waited go by the clocks of the processes that
// wrote and that read them.
func (s *Store) Inspect(ctx context.Context, key string) (driver.LockInfo, error) {
	return s.ops.Inspect(ctx, key)
}

// inspect shows keys as of one moment, except for how long they have left.
func (s *Store) inspect(ctx context.Context, keys []string) ([]driver.LockInfo, error) {
	t := s.tx(ctx, casstore.Aim{Keys: keys})
	var err error
	if t.views, _, err = s.read(ctx, keys); err != nil {
		return nil, err
	}
	t.reset()
	infos := make([]driver.LockInfo, len(keys))
	err = casstore.Parallel(len(keys), func(i int) error {
		infos[i] = t.Show(t.locks[i].Key)
		return s.addLeft(ctx, t.locks[i], &infos[i])
	})
	return infos, err
}

// addLeft adds how long leases and the record have left, which only etcd knows.
func (s *Store) addLeft(ctx context.Context, l *lock, info *driver.LockInfo) (err error) {
	shown := info.Holders
	info.Holders = nil
	for i, h := range shown {
		if h.Left, err = s.left(ctx, l.Holders()[i].Ref.(*node).was.lease); err != nil {
			return err
		}
		if h.Left > 0 { // otherwise it has run out since it was read
			info.Holders = append(info.Holders, h)
		}
	}
	if info.Record == nil {
		return nil
	}
	if info.Record.Left, err = s.left(ctx, l.seen.keeps); info.Record.Left <= 0 {
		info.Record = nil
	}
	return err
}

// left is how long a lease still lasts; not above 0: it has run out.
func (s *Store) left(ctx context.Context, id clientv3.LeaseID) (time.Duration, error) {
	r, err := s.client.TimeToLive(ctx, id)
	switch {
	case isGone(err):
		return 0, nil
	case err != nil:
		return 0, err
	case r.TTL == 0:
		return time.Second / 2, nil // etcd leaves out parts of a second
	}
	return time.Duration(r.TTL) * time.Second, nil
}

const (
	// mostPage is how many keys List shows at most.
	mostPage = 100
	// keysOfALock is how many keys of etcd a page looks at for each lock.
	keysOfALock = 4
	// requestsPerPage is how often a page asks for names while it finds no lock, and mostNames for how many at
	// most.
	requestsPerPage = 8
	mostNames       = 4000
)

// List implements [driver.Inspector]. Keys come in order. If cursor is not one of this store's,
// the error matches driver.ErrInvalidOption.
func (s *Store) List(ctx context.Context, q driver.Listing) ([]driver.LockInfo, string, error) {
	from := s.cfg.prefix + "{" + q.Prefix
	after, err := hex.DecodeString(q.Cursor)
	if err != nil || q.Cursor != "" && !strings.HasPrefix(string(after), from) {
		return nil, "", &driver.OptionError{Option: "List", Value: q.Cursor, Want: "a cursor that List returned for this prefix"}
	}
	return s.ops.List(ctx, q, mostPage, func(ctx context.Context, q driver.Listing) (infos []driver.LockInfo, next string, err error) {
		keys, last, err := s.used(ctx, q, from, string(after))
		if err == nil {
			infos, err = casstore.Readable(keys, errData, func(keys []string) ([]driver.LockInfo, error) { return s.inspect(ctx, keys) })
		}
		return infos, hex.EncodeToString([]byte(last)), err
	})
}

// used returns the first locks that q seems to show, by the names of their keys in etcd: those that
// begin with from and are behind after. It also returns the key that the next page begins behind; "":
// there is none. It asks again while there are only others, such as records.
func (s *Store) used(ctx context.Context, q driver.Listing, from, after string) (keys []string, next string, err error) {
	names := keysOfALock * q.Limit
	for range requestsPerPage {
		begin := from
		if after != "" {
			begin = after + "\x00"
		}
		r, err := s.client.Get(ctx, begin, clientv3.WithRange(clientv3.GetPrefixRangeEnd(from)), clientv3.WithKeysOnly(), clientv3.WithLimit(int64(names)))
		if err != nil {
			return nil, "", err
		}
		for i, kv := range r.Kvs {
			key, part, ok := s.lockOf(string(kv.Key))
			_, isMember := ownerOf(part)
			inUse := ok && (isMember || q.Records && part == recordPart)
			if !inUse || len(keys) > 0 && keys[len(keys)-1] == key {
				continue
			}
			if len(keys) == q.Limit {
				return keys, string(r.Kvs[i-1].Key), nil
			}
			keys = append(keys, key)
		}
		if !r.More {
			return keys, "", nil
		}
		if after = string(r.Kvs[len(r.Kvs)-1].Key); len(keys) > 0 {
			break
		}
		names = min(2*names, mostNames)
	}
	return keys, after, nil
}
