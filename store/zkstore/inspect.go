package zkstore

import (
	"context"

	"github.com/keyturn/keyturn/core/driver"
)

// Inspect implements [driver.Inspector].
func (s *Store) Inspect(ctx context.Context, key string) (driver.LockInfo, error) {
	info := driver.LockInfo{Key: key}
	if err := driver.ValidateKey(key); err != nil {
		return info, err
	}
	if err := s.calls.Enter(); err != nil {
		return info, err
	}
	defer s.calls.Leave()
	found, err, answered := do(ctx, s, func(ctx context.Context) (driver.LockInfo, error) {
		return retry(ctx, s, func(p *peer) (driver.LockInfo, error) { return s.inspect(ctx, p, key, true) })
	}, nil)
	if err := conclude(ctx, "inspect", key, answered, err); err != nil {
		return info, err
	}
	return found, nil
}

// inspect shows a key as of one moment. It changes nothing, also not what is over.
func (s *Store) inspect(ctx context.Context, p *peer, key string, sync bool) (driver.LockInfo, error) {
	t := &tx{s: s, ctx: ctx, p: p, looks: true, synced: sync, records: true}
	if err := t.load([]string{key}); err != nil {
		return driver.LockInfo{}, err
	}
	l := t.locks[0]
	waiters := l.Waiters()
	err := together(len(waiters), func(i int) error { return t.describe(l, waiters[i]) })
	if err != nil {
		return driver.LockInfo{}, err
	}
	info := driver.LockInfo{Key: key, Mode: l.Phase.Mode, Holders: t.show(l)}
	for _, w := range waiters {
		info.Waiters = append(info.Waiters, driver.Waiter{
			Owner: w.Owner, Mode: w.mode, Permits: w.permits, Rule: w.Rule, Trace: w.Trace, Waited: fromMicros(max(0, t.now.now-w.since)),
		})
	}
	if r := l.record; r != nil {
		info.Record = &driver.RecordInfo{
			Owner: r.Owner, Size: len(r.Result), ResultNotKept: r.ResultNotKept, Trace: r.Record.Trace, Left: fromMicros(r.ends - t.now.now),
		}
	}
	return info, nil
}

// show lists the holders.
func (t *tx) show(l *lock) []driver.Holder {
	var holders []driver.Holder
	for _, h := range l.Holders() {
		left := min(h.ends-t.now.now, h.Term) // now is a little early
		holders = append(holders, driver.Holder{
			Owner: h.Owner, Token: h.Token, Rule: h.Rule, Trace: h.Trace,
			HeldFor: fromMicros(max(0, t.now.now-h.since)), Left: fromMicros(left), Lingers: h.lingers(),
		})
	}
	return holders
}
