package zkstore

import (
	"context"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/keyturn/keyturn/core/driver"
)

// forcedFor is how long owners can learn why their lease was taken. They ask within a third of
// their TTL; one that has not asked by then is gone.
const forcedFor = time.Hour

// maxReasonBytes bounds the reason that is kept.
const maxReasonBytes = 4096

// ForceRelease implements [driver.Inspector]. Owners can learn the reason for an hour, up to its
// first 4096 bytes.
func (s *Store) ForceRelease(ctx context.Context, key, reason string, only ...driver.Holder) ([]driver.Holder, error) {
	if err := driver.ValidateKey(key); err != nil {
		return nil, err
	}
	if err := s.calls.Enter(); err != nil {
		return nil, err
	}
	defer s.calls.Leave()
	type result struct {
		ended  []driver.Holder
		wants  []want
		unsure bool
	}
	res, err, answered := do(ctx, s, func(ctx context.Context) (r result, err error) {
		r.unsure, err = s.transact(ctx, aim{keys: []string{key}, looks: true}, func(t *tx) (err error) {
			r.wants = t.locks[0].want()
			r.ended, err = t.force(t.locks[0], reason[:min(len(reason), maxReasonBytes)], only)
			return err
		})
		return r, err
	}, nil)
	if err := conclude(ctx, "force release", key, answered, err); err != nil {
		return nil, err
	}
	if res.unsure && len(res.ended) == 0 {
		return nil, &driver.UnavailableError{Op: "force release", Key: key, Err: driver.ErrOutcomeUnknown}
	}
	s.send(res.wants)
	return res.ended, nil
}

// force ends leases, and notes why for their owners.
func (t *tx) force(l *lock, reason string, only []driver.Holder) ([]driver.Holder, error) {
	had := t.show(l)
	named := driver.Named(had, only)
	if len(had) > 0 && len(named) == 0 {
		return nil, verdict{t.held(l, 0)}
	}
	for _, h := range named {
		id := nodeID(h.Owner)
		path, data := l.path+"/"+forcedNode+id, encode(forcedData{Token: h.Token, Reason: reason})
		if l.nodes.forced[forcedNode+id] {
			t.extra = append(t.extra, &zk.SetDataRequest{Path: path, Data: data, Version: -1})
		} else {
			t.extra = append(t.extra, &zk.CreateRequest{Path: path, Data: data, Acl: t.s.cfg.acl})
		}
		l.remove(l.Find(id))
	}
	return named, nil
}
