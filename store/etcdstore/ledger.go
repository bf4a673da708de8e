package etcdstore

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/keyturn/keyturn/core/driver"
)

// record is what Once remembers of a key.
type record struct {
	driver.Record
	owner string
	lease clientv3.LeaseID
}

// recordValue is what the key of a record keeps.
type recordValue struct {
	Owner       string `json:"owner"`
	Fingerprint []byte `json:"fingerprint,omitempty"`
	Result      []byte `json:"result,omitempty"`
	NotKept     bool   `json:"notKept,omitempty"`
	Trace       []byte `json:"trace,omitempty"`
}

func readRecord(kv *mvccpb.KeyValue) (*record, error) {
	var v recordValue
	if err := json.Unmarshal(kv.Value, &v); err != nil {
		return nil, foreign(kv, err)
	}
	return &record{
		Record: driver.Record{Fingerprint: v.Fingerprint, Result: v.Result, ResultNotKept: v.NotKept, Trace: string(v.Trace)},
		owner:  v.Owner, lease: clientv3.LeaseID(kv.Lease),
	}, nil
}

// Begin implements [driver.Ledger]. An execution has one exclusive claim; anything else gets an
// error that matches [errors.ErrUnsupported].
func (s *Store) Begin(ctx context.Context, req driver.Request) (driver.Grant, *driver.Record, error) {
	if err := driver.CheckOnce(req.Claims); err != nil {
		return driver.Grant{}, nil, err
	}
	a, err := s.acquire(ctx, req, true)
	return a.grant, a.record, err
}

// seconds rounds a time up to what etcd can keep.
func seconds(d time.Duration) time.Duration { return (d + time.Second - 1).Truncate(time.Second) }

// Complete implements [driver.Ledger]. A record is kept for whole seconds, rounded up, and then for
// another 16th of its retention at most, because many records share a lease of etcd.
func (s *Store) Complete(ctx context.Context, g driver.Grant, rec driver.Record, retention time.Duration) error {
	if err := driver.CheckOnce(g.Claims); err != nil {
		return err
	}
	if retention < time.Millisecond {
		return &driver.OptionError{Option: "retention", Value: retention, Want: "1ms or more"}
	}
	if err := s.check(g.Owner, g.Claims, g.TTL); err != nil {
		return err
	}
	if err := s.calls.Enter(); err != nil {
		return err
	}
	defer s.calls.Leave()
	key := g.Claims[0].Key
	err := s.complete(ctx, g, rec, retention)
	if err != nil && tooLarge(err) && !rec.ResultNotKept {
		rec.Result, rec.ResultNotKept = nil, true
		if err = s.complete(ctx, g, rec, retention); err == nil {
			return &driver.ResultNotKeptError{Key: key}
		}
	}
	return failure("complete", key, err)
}

// complete stores rec and releases the lease.
func (s *Store) complete(ctx context.Context, g driver.Grant, rec driver.Record, retention time.Duration) error {
	var ended *member
	err := s.transact(ctx, driver.Keys(g.Claims), byHeart, func(t *tx) error {
		l := t.locks[0]
		ended = l.members.Holding(g.Owner, g.Token)
		switch {
		case ended == nil && !t.fresh:
			return errLook
		case ended == nil && l.record != nil && l.record.owner == g.Owner: // L5
			if l.record.ResultNotKept && !rec.ResultNotKept {
				return verdict{&driver.ResultNotKeptError{Key: l.key}}
			}
			return nil
		case ended == nil, ended.Mode != driver.ModeExclusive:
			return t.lost(l.key, g)
		}
		stays, err := s.shelf.lease(ctx, seconds(retention))
		if err != nil {
			return err
		}
		l.remove(ended)
		l.record = &record{Record: rec, owner: g.Owner}
		value := recordValue{Owner: g.Owner, Fingerprint: rec.Fingerprint, Result: rec.Result, NotKept: rec.ResultNotKept, Trace: []byte(rec.Trace)}
		t.also = append(t.also, clientv3.OpPut(s.base(l.key)+recordPart, encode(value), clientv3.WithLease(stays)))
		return nil
	})
	if err == nil && ended != nil {
		s.recycle(g, ended)
	}
	return err
}

// Forget implements [driver.Inspector].
func (s *Store) Forget(ctx context.Context, key string) (bool, error) {
	if err := driver.ValidateKey(key); err != nil {
		return false, err
	}
	if err := s.calls.Enter(); err != nil {
		return false, err
	}
	defer s.calls.Leave()
	base := s.base(key)
	r, err := s.client.Txn(ctx).Then(clientv3.OpDelete(base+recordPart), clientv3.OpDelete(base+versionPart)).Commit()
	if err != nil {
		return false, failure("forget", key, err)
	}
	had := false
	for _, part := range r.Responses {
		had = had || part.GetResponseDeleteRange().Deleted > 0
	}
	return had, nil
}

// Raise implements [driver.Ledger].
func (s *Store) Raise(ctx context.Context, key string, version uint64, retention time.Duration) (uint64, error) {
	if err := driver.ValidateKey(key); err != nil {
		return 0, err
	}
	if retention < time.Millisecond && version > 0 {
		return 0, &driver.OptionError{Option: "retention", Value: retention, Want: "1ms or more"}
	}
	if err := s.calls.Enter(); err != nil {
		return 0, err
	}
	defer s.calls.Leave()
	newest, err := s.raise(ctx, key, version, seconds(retention))
	return newest, failure("raise", key, err)
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
		stays, err := s.shelf.lease(ctx, retention)
		if err != nil {
			return 0, err
		}
		put := clientv3.OpPut(name, strconv.FormatUint(newest, 10), clientv3.WithLease(stays))
		r, err := s.client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(name), "=", mod)).Then(put).Else(clientv3.OpGet(name)).Commit()
		switch {
		case isGone(err) && gone < tries:
			s.shelf.forget()
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
