package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

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
	infos, err, answered := do(ctx, s, s.room, nil, func(ctx context.Context) ([]driver.LockInfo, error) {
		return s.inspect(ctx, []string{key})
	}, nil)
	if err := s.conclude(ctx, "inspect", key, answered, false, err); err != nil {
		return info, err
	}
	return infos[0], nil
}

// inspect shows keys as of one moment.
func (s *Store) inspect(ctx context.Context, keys []string) ([]driver.LockInfo, error) {
	infos := make([]driver.LockInfo, len(keys))
	// A transaction would also lock the rows, and lookers would be in the way of those who work.
	// So one question asks for all of it.
	in, args := list(keys)
	query := fmt.Sprintf("SELECT %s, %s, r.owner, r.until, COALESCE(length(r.result), 0), r.not_kept, r.trace FROM %s l"+
		" LEFT JOIN %s m ON m.lock_key = l.lock_key LEFT JOIN %s r ON r.lock_key = l.lock_key WHERE l.lock_key IN %s",
		s.d.clock, strings.Join(slices.Concat(tableNamed("lock").fields("l"), tableNamed("member").fields("m")), ", "),
		s.q.lockTable, s.q.memberTable, s.q.recordTable, in)
	byKey := make(map[string]*seen, len(keys))
	err := s.query(ctx, query, args, func() { clear(byKey) }, func(rows *sql.Rows) error {
		return readSeen(rows, byKey)
	})
	for i, key := range keys {
		infos[i].Key = key
		if found := byKey[key]; found != nil {
			infos[i] = found.info(key)
		}
	}
	return infos, err
}

// seen is what a question has shown of a key.
type seen struct {
	lock   *lock
	now    micros
	record *driver.RecordInfo
}

// readSeen reads a row: a lock with one of its members, if it has any, and its record.
func readSeen(rows *sql.Rows, byKey map[string]*seen) error {
	var owner sql.NullString
	var until, size, notKept sql.NullInt64
	var trace []byte
	key, r, m, now, err := readRow(rows, &owner, &until, &size, &notKept, &trace)
	if err != nil {
		return err
	}
	found := byKey[key]
	if found == nil {
		found = &seen{now: now, lock: &lock{key: key}}
		byKey[key] = found
		found.lock.Phase.Mode = r.mode
		if h := r.holder; h.owner != "" && h.until > now {
			found.lock.Members = append(found.lock.Members, &h)
		}
		if until.Int64 > now && r.recordUntil > now {
			found.record = &driver.RecordInfo{
				Owner: owner.String, Size: int(size.Int64), ResultNotKept: notKept.Int64 != 0, Trace: string(trace), Left: fromMicros(until.Int64 - now),
			}
		}
	}
	if m.owner != "" && m.until > now {
		found.lock.Members = append(found.lock.Members, &m)
	}
	return nil
}

// info is what was seen, for the caller of Inspect.
func (s *seen) info(key string) driver.LockInfo {
	s.lock.Sort()
	info := driver.LockInfo{Key: key, Mode: s.lock.Phase.Mode, Record: s.record, Holders: s.lock.show(s.now)}
	for _, w := range s.lock.Waiters() {
		info.Waiters = append(info.Waiters, driver.Waiter{
			Owner: w.owner, Mode: w.mode, Permits: w.permits, Rule: w.rule, Trace: w.trace, Waited: fromMicros(s.now - w.since),
		})
	}
	return info
}

// show lists the holders.
func (l *lock) show(now micros) []driver.Holder {
	var holders []driver.Holder
	for _, h := range l.Holders() {
		holders = append(holders, driver.Holder{
			Owner: h.owner, Token: h.token, Rule: h.rule, Trace: h.trace, HeldFor: fromMicros(now - h.since), Left: fromMicros(h.until - now), Lingers: h.lingers(),
		})
	}
	return holders
}
