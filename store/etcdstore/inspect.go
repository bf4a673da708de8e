package etcdstore

import (
	"context"
	"encoding/hex"
	"errors"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/keyturn/keyturn/core/driver"
)

// Inspect implements [driver.Inspector]. HeldFor and Waited go by the clocks of the processes that
// wrote and that read them.
func (s *Store) Inspect(ctx context.Context, key string) (driver.LockInfo, error) {
	if err := driver.ValidateKey(key); err != nil {
		return driver.LockInfo{Key: key}, err
	}
	if err := s.calls.Enter(); err != nil {
		return driver.LockInfo{Key: key}, err
	}
	defer s.calls.Leave()
	infos, err := s.inspect(ctx, []string{key})
	if err != nil {
		return driver.LockInfo{Key: key}, failure("inspect", key, err)
	}
	return infos[0], nil
}

// inspect shows keys as of one moment, except for how long they have left.
func (s *Store) inspect(ctx context.Context, keys []string) ([]driver.LockInfo, error) {
	t := &tx{s: s, ctx: ctx}
	if err := t.load(keys); err != nil {
		return nil, err
	}
	infos := make([]driver.LockInfo, len(keys))
	errs := make([]error, len(keys))
	var all sync.WaitGroup
	for i, l := range t.locks {
		all.Go(func() { infos[i], errs[i] = s.info(ctx, l) })
	}
	all.Wait()
	return infos, errors.Join(errs...)
}

func (s *Store) info(ctx context.Context, l *lock) (info driver.LockInfo, err error) {
	info = driver.LockInfo{Key: l.key, Mode: l.place().Phase.Mode}
	if info.Holders, err = s.show(ctx, l); err != nil {
		return info, err
	}
	for _, w := range l.members.Waiters() {
		info.Waiters = append(info.Waiters, driver.Waiter{
			Owner: w.owner, Mode: w.Mode, Permits: w.Permits, Rule: string(w.Rule), Trace: string(w.Trace), Waited: w.heldFor(),
		})
	}
	if rec := l.record; rec != nil {
		left, err := s.left(ctx, rec.lease)
		if err != nil || left <= 0 {
			return info, err
		}
		info.Record = &driver.RecordInfo{
			Owner: rec.owner, Size: len(rec.Result), ResultNotKept: rec.ResultNotKept, Trace: rec.Trace, Left: left,
		}
	}
	return info, nil
}

// show lists the holders.
func (s *Store) show(ctx context.Context, l *lock) ([]driver.Holder, error) {
	var holders []driver.Holder
	for _, h := range l.members.Holders() {
		left, err := s.left(ctx, h.lease)
		if err != nil {
			return nil, err
		}
		if left <= 0 {
			continue // it has run out since it was read
		}
		holders = append(holders, driver.Holder{
			Owner: h.owner, Token: h.Token, Rule: string(h.Rule), Trace: string(h.Trace), HeldFor: h.heldFor(), Left: left, Lingers: h.lingers(),
		})
	}
	return holders, nil
}

// left is how long a lease still lasts; not above 0: it has run out.
func (s *Store) left(ctx context.Context, id clientv3.LeaseID) (time.Duration, error) {
	r, err := s.client.TimeToLive(ctx, id)
	if err != nil {
		if isGone(err) {
			return 0, nil
		}
		return 0, err
	}
	if r.TTL == 0 {
		return time.Second / 2, nil // etcd leaves out parts of a second
	}
	return time.Duration(r.TTL) * time.Second, nil
}

const (
	// defaultPage is how many keys List shows if limit is below 1.
	defaultPage = 100
	// keysOfALock is how many keys of etcd a page looks at for each lock.
	keysOfALock = 4
)

// List implements [driver.Inspector]. Keys come in order. If cursor is not one of this store's,
// the error matches driver.ErrInvalidOption.
func (s *Store) List(ctx context.Context, prefix, cursor string, limit int) ([]driver.LockInfo, string, error) {
	from := s.cfg.prefix + "{" + prefix
	after, err := hex.DecodeString(cursor)
	if err != nil || cursor != "" && !strings.HasPrefix(string(after), from) {
		return nil, "", &driver.OptionError{Option: "List", Value: cursor, Want: "a cursor that List returned for this prefix"}
	}
	if limit < 1 {
		limit = defaultPage
	}
	limit = min(limit, defaultPage)
	if err := s.calls.Enter(); err != nil {
		return nil, "", err
	}
	defer s.calls.Leave()
	infos, next, err := s.page(ctx, from, string(after), limit)
	return infos, hex.EncodeToString([]byte(next)), failure("list", "", err)
}

// page shows the locks whose keys in etcd begin with prefix and are behind after, and returns the
// key that the next page begins behind; "": there is none.
func (s *Store) page(ctx context.Context, prefix, after string, limit int) (infos []driver.LockInfo, next string, err error) {
	from := prefix
	if after != "" {
		from = after + "\x00"
	}
	r, err := s.client.Get(ctx, from, clientv3.WithRange(clientv3.GetPrefixRangeEnd(prefix)), clientv3.WithKeysOnly(), clientv3.WithLimit(int64(keysOfALock*limit)))
	if err != nil {
		return nil, "", err
	}
	if r.More {
		next = string(r.Kvs[len(r.Kvs)-1].Key)
	}
	var keys []string
	for i, kv := range r.Kvs {
		key, part, ok := s.lockOf(string(kv.Key))
		inUse := ok && (part == recordPart || len(part) > len(memberPart) && part[:len(memberPart)] == memberPart)
		if !inUse || len(keys) > 0 && keys[len(keys)-1] == key {
			continue
		}
		if len(keys) == limit {
			next = string(r.Kvs[i-1].Key)
			break
		}
		keys = append(keys, key)
	}
	for len(keys) > 0 {
		some := keys[:min(len(keys), keysPerTxn)]
		keys = keys[len(some):]
		shown, err := s.inspect(ctx, some)
		if err != nil {
			return nil, "", err
		}
		for _, info := range shown {
			if !info.IsFree() {
				infos = append(infos, info)
			}
		}
	}
	return infos, next, nil
}
