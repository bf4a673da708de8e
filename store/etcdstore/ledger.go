package etcdstore

import (
	"context"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/keystate"
)

// Begin implements [driver.Ledger]. An execution has one exclusive claim; anything else gets an
// error that matches [errors.ErrUnsupported].
func (s *Store) Begin(ctx context.Context, req driver.Request) (driver.Grant, *driver.Record, error) {
	return s.ops.Begin(ctx, req)
}

// seconds rounds a time up to what etcd can keep.
func seconds(d time.Duration) time.Duration { return (d + time.Second - 1).Truncate(time.Second) }

// Complete implements [driver.Ledger]. A record is kept for whole seconds, rounded up, at least for the
// shortest TTL of the servers, and then for another 16th of its retention at most, because many records
// share a lease of etcd.
func (s *Store) Complete(ctx context.Context, g driver.Grant, rec driver.Record, retention time.Duration) error {
	err := s.ops.Complete(ctx, g, rec, retention, nil)
	if err != nil && tooLarge(err) {
		err = s.ops.Complete(ctx, g, rec, retention, func(*keystate.Record) bool { return false })
	}
	return err
}

// Forget implements [driver.Inspector].
func (s *Store) Forget(ctx context.Context, key string) (bool, error) {
	return s.ops.Forget(ctx, key, func(ctx context.Context) (had bool, err error) {
		base := s.base(key)
		r, err := s.client.Txn(ctx).Then(clientv3.OpDelete(base+recordPart), clientv3.OpDelete(base+versionPart)).Commit()
		if err != nil {
			return false, err
		}
		for _, part := range r.Responses {
			had = had || part.GetResponseDeleteRange().Deleted > 0
		}
		return had, nil
	})
}

// AdvanceVersion implements [driver.Ledger].
func (s *Store) AdvanceVersion(ctx context.Context, key string, version uint64, retention time.Duration) (uint64, error) {
	return s.ops.AdvanceVersion(ctx, key, version, retention, func(ctx context.Context) (uint64, error) {
		return s.raise(ctx, key, version, seconds(retention))
	})
}

func (s *Store) raise(ctx context.Context, key string, version uint64, retention time.Duration) (uint64, error) {
	name := s.base(key) + versionPart
	r, err := s.client.Get(ctx, name)
	if err != nil {
		return 0, err
	}
	kvs := r.Kvs
	for gone := 0; ; {
		newest, mod := version, int64(0)
		for _, kv := range kvs {
			old, err := strconv.ParseUint(string(kv.Value), 10, 64)
			if err != nil {
				return 0, foreign(kv, err)
			}
			newest, mod = max(newest, old), kv.ModRevision
		}
		if version == 0 {
			return newest, nil
		}
		keeps, err := s.shared.lease(ctx, retention)
		if err != nil {
			return 0, err
		}
		put := clientv3.OpPut(name, strconv.FormatUint(newest, 10), clientv3.WithLease(keeps))
		r, err := s.client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(name), "=", mod)).Then(put).Else(clientv3.OpGet(name)).Commit()
		switch {
		case isGone(err) && gone < tries:
			s.shared.forget()
			gone++
			continue
		case err != nil:
			return 0, err
		case r.Succeeded:
			return newest, nil
		}
		kvs = r.Responses[0].GetResponseRange().Kvs
	}
}
