package sqlstore

import (
	"context"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// forcedFor is how long owners can learn why their lease was taken. They ask within a third of
// their TTL; one that has not asked by then is gone.
const forcedFor = time.Hour

// ForceRelease implements [driver.Inspector]. Owners can learn the reason for an hour.
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
		unsure bool
	}
	before := false // an earlier attempt may have been carried out
	res, err, answered := do(ctx, s, s.room, []string{key}, func(ctx context.Context) (r result, err error) {
		unsure, err := s.transact(ctx, []string{key}, existing, func(t *tx) (err error) {
			r.ended, err = t.force(t.locks[0], reason, only)
			return err
		})
		before = before || unsure
		r.unsure = before
		return r, err
	}, nil)
	if err := s.conclude(ctx, "force release", key, answered, res.unsure, err); err != nil {
		return nil, err
	}
	if res.unsure && len(res.ended) == 0 {
		return nil, &driver.UnavailableError{Op: "force release", Key: key, Err: driver.ErrOutcomeUnknown}
	}
	return res.ended, nil
}

// force ends leases, and notes why for their owners.
func (t *tx) force(l *lock, reason string, only []driver.Holder) ([]driver.Holder, error) {
	had := l.show(t.now)
	named := driver.Named(had, only)
	if len(had) > 0 && len(named) == 0 {
		return nil, verdict{t.held(l, 0)}
	}
	upsert := t.s.d.upsertInto(t.s.prefix, tableNamed("forced"))
	for _, h := range named {
		if err := t.exec(upsert.of(1), []byte(l.key), h.Owner, int64(h.Token), t.now+toMicros(forcedFor), []byte(reason)); err != nil {
			return nil, err
		}
		t.want(l)
		l.Remove(l.Find(h.Owner))
	}
	return named, nil
}
