package sqlstore

import (
	"context"
	"database/sql"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// Inspect implements [driver.Inspector].
func (s *Store) Inspect(ctx context.Context, key string) (driver.LockInfo, error) {
	info := driver.LockInfo{Key: key}
	if err := driver.ValidateKey(key); err != nil {
		return info, err
	}
	if err := s.enter(); err != nil {
		return info, err
	}
	defer s.leave()
	infos, err, answered := do(ctx, s, s.room, func(ctx context.Context) ([]driver.LockInfo, error) {
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
	lockColumns, memberColumns := tableNamed("lock").names(), tableNamed("member").names()
	query := fmt.Sprintf("SELECT %s, l.%s, m.%s, r.owner, r.until, COALESCE(length(r.result), 0), r.not_kept, r.trace FROM %s l"+
		" LEFT JOIN %s m ON m.lock_key = l.lock_key LEFT JOIN %s r ON r.lock_key = l.lock_key WHERE l.lock_key IN %s",
		s.d.clock, strings.Join(lockColumns, ", l."), strings.Join(memberColumns, ", m."), s.q.lockTable, s.q.memberTable, s.q.recordTable, in)
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
	var now micros
	var name, rule, trace []byte
	var r lockRow
	h := &r.holder
	var key2, owner, inbox, rule2, trace2, recordOwner, recordTrace []byte
	var waits, mode, permits, nr, token, reserved, until, since, ttl, flags, recordUntil, size, notKept sql.NullInt64
	if err := rows.Scan(&now, &name, &r.last, &r.mode, &r.through, &r.arrived, &r.members, &r.recordUntil,
		&h.owner, &h.token, &h.reserved, &h.until, &h.since, &h.ttl, &h.flags, &rule, &trace,
		&key2, &waits, &mode, &permits, &nr, &inbox,
		&owner, &token, &reserved, &until, &since, &ttl, &flags, &rule2, &trace2,
		&recordOwner, &recordUntil, &size, &notKept, &recordTrace); err != nil {
		return err
	}
	key := string(name)
	found := byKey[key]
	if found == nil {
		found = &seen{now: now, lock: &lock{key: key}}
		byKey[key] = found
		found.lock.phase.Mode = r.mode
		h.rule, h.trace, h.mode = string(rule), string(trace), r.mode
		if h.owner != "" && h.until > now {
			found.lock.members = append(found.lock.members, h)
		}
		if recordUntil.Int64 > now && r.recordUntil > now {
			found.record = &driver.RecordInfo{
				Owner: string(recordOwner), Size: int(size.Int64), ResultNotKept: notKept.Int64 != 0, Trace: string(recordTrace),
				Left: fromMicros(recordUntil.Int64 - now),
			}
		}
	}
	if len(owner) > 0 && until.Int64 > now {
		found.lock.members = append(found.lock.members, &member{
			owner: string(owner), waits: waits.Int64 != 0, mode: driver.Mode(mode.Int64), permits: int(permits.Int64), nr: uint64(nr.Int64),
			token: uint64(token.Int64), until: until.Int64, since: since.Int64, rule: string(rule2), trace: string(trace2),
		})
	}
	return nil
}

// info is what was seen, for the caller of Inspect.
func (s *seen) info(key string) driver.LockInfo {
	s.lock.sort()
	info := driver.LockInfo{Key: key, Mode: s.lock.phase.Mode, Record: s.record, Holders: s.lock.show(s.now)}
	for _, w := range s.lock.waiters() {
		info.Waiters = append(info.Waiters, driver.Waiter{
			Owner: w.owner, Mode: w.mode, Permits: w.permits, Rule: w.rule, Trace: w.trace, Waited: fromMicros(s.now - w.since),
		})
	}
	return info
}

// show lists the holders.
func (l *lock) show(now micros) []driver.Holder {
	var holders []driver.Holder
	for _, h := range l.holders() {
		holders = append(holders, driver.Holder{
			Owner: h.owner, Token: h.token, Rule: h.rule, Trace: h.trace, HeldFor: fromMicros(now - h.since), Left: fromMicros(h.until - now),
		})
	}
	return holders
}

// defaultPage is how many keys List looks for if limit is below 1.
const defaultPage = 100

// List implements [driver.Inspector]. Keys come in order. If cursor is not one of this store's,
// the error matches driver.ErrInvalidOption.
func (s *Store) List(ctx context.Context, prefix, cursor string, limit int) ([]driver.LockInfo, string, error) {
	after, err := hex.DecodeString(cursor)
	if err != nil {
		return nil, "", &driver.OptionError{Option: "List", Value: cursor, Want: "a cursor that List returned"}
	}
	if limit < 1 {
		limit = defaultPage
	}
	limit = min(limit, keysPerQuery)
	if err := s.enter(); err != nil {
		return nil, "", err
	}
	defer s.leave()
	type page struct {
		infos []driver.LockInfo
		next  string
	}
	p, err, answered := do(ctx, s, s.room, func(ctx context.Context) (p page, err error) {
		keys, err := s.used(ctx, prefix, after, limit)
		if err != nil || len(keys) == 0 {
			return p, err
		}
		if len(keys) == limit {
			p.next = hex.EncodeToString([]byte(keys[limit-1]))
		}
		p.infos, err = s.inspect(ctx, keys)
		p.infos = slices.DeleteFunc(p.infos, func(i driver.LockInfo) bool {
			return len(i.Holders)+len(i.Waiters) == 0 && i.Record == nil
		})
		return p, err
	}, nil)
	return p.infos, p.next, s.conclude(ctx, "list", "", answered, false, err)
}

// used returns the first keys after the key after that begin with prefix and seem to be in use.
func (s *Store) used(ctx context.Context, prefix string, after []byte, limit int) ([]string, error) {
	condition, args := "lock_key > ?", []any{after}
	if prefix != "" {
		condition += " AND lock_key >= ?"
		args = append(args, []byte(prefix))
		if behind := behindAll([]byte(prefix)); behind != nil {
			condition += " AND lock_key < ?"
			args = append(args, behind)
		}
	}
	query := fmt.Sprintf("SELECT lock_key FROM %s WHERE %s AND (members > 0 OR record_until > %s OR owner <> '' AND until > %s) ORDER BY lock_key LIMIT %d",
		s.q.lockTable, condition, s.d.clock, s.d.clock, limit)
	var keys []string
	err := s.query(ctx, query, args, func() { keys = nil }, func(rows *sql.Rows) error {
		var key []byte
		err := rows.Scan(&key)
		keys = append(keys, string(key))
		return err
	})
	return keys, err
}

// behindAll returns the first text after all that begin with prefix; nil: there is none.
func behindAll(prefix []byte) []byte {
	behind := slices.Clone(prefix)
	for i := len(behind) - 1; i >= 0; i-- {
		if behind[i] < 0xff {
			behind[i]++
			return behind[:i+1]
		}
	}
	return nil
}

// forcedFor is how long owners can learn why their lease was taken. They ask within a third of
// their TTL; one that has not asked by then is gone.
const forcedFor = time.Hour

// ForceRelease implements [driver.Inspector]. Owners can learn the reason for an hour.
func (s *Store) ForceRelease(ctx context.Context, key, reason string, only ...driver.Holder) ([]driver.Holder, error) {
	if err := driver.ValidateKey(key); err != nil {
		return nil, err
	}
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	type result struct {
		ended  []driver.Holder
		unsure bool
	}
	res, err, answered := do(ctx, s, s.room, func(ctx context.Context) (r result, err error) {
		r.unsure, err = s.transact(ctx, []string{key}, false, func(t *tx) (err error) {
			r.ended, err = t.force(t.locks[0], reason, only)
			return err
		})
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
	upsert := t.s.d.upsertInto(t.s.cfg.prefix, tableNamed("forced"))
	for _, h := range named {
		if err := t.exec(upsert.of(1), []byte(l.key), h.Owner, int64(h.Token), t.now+toMicros(forcedFor), []byte(reason)); err != nil {
			return nil, err
		}
		l.remove(l.find(h.Owner))
	}
	return named, nil
}

// Forget implements [driver.Inspector].
func (s *Store) Forget(ctx context.Context, key string) (bool, error) {
	if err := driver.ValidateKey(key); err != nil {
		return false, err
	}
	if err := s.enter(); err != nil {
		return false, err
	}
	defer s.leave()
	had, err, answered := do(ctx, s, s.room, func(ctx context.Context) (had bool, err error) {
		_, err = s.transact(ctx, []string{key}, false, func(t *tx) error {
			l := t.locks[0]
			had = l.recordUntil > t.now
			l.recordUntil = 0
			for _, table := range []string{s.q.recordTable, s.q.versionTable} {
				err := t.query(fmt.Sprintf("SELECT 1 FROM %s WHERE lock_key = ? AND until > ?", table), []any{[]byte(key), t.now}, func(*sql.Rows) error {
					had = true
					return nil
				})
				if err != nil {
					return err
				}
				if err := t.exec(fmt.Sprintf("DELETE FROM %s WHERE lock_key = ?", table), []byte(key)); err != nil {
					return err
				}
			}
			return nil
		})
		return had, err
	}, nil)
	return had, s.conclude(ctx, "forget", key, answered, false, err)
}
