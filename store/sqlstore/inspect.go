package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/keystate"
)

// Inspect implements [driver.Inspector].
func (s *Store) Inspect(ctx context.Context, key string) (driver.LockInfo, error) {
	return s.ops.Inspect(ctx, key)
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
			infos[i] = found.info()
		}
	}
	return infos, err
}

// seen is what a question has shown of a key.
type seen struct {
	*lock
	now    micros
	record *driver.RecordInfo
}

// readSeen reads a row: a lock with one of its members, if it has any, and its record.
func readSeen(rows *sql.Rows, byKey map[string]*seen) error {
	var owner sql.NullString
	var until, size, notKept sql.NullInt64
	var trace []byte
	key, was, m, now, err := readRow(rows, &owner, &until, &size, &notKept, &trace)
	if err != nil {
		return err
	}
	found := byKey[key]
	if found == nil {
		found = &seen{now: now, lock: &lock{Key: &keystate.Key{Name: key}, was: was}}
		byKey[key] = found
		if until.Int64 > now && was.recordUntil > now {
			found.record = &driver.RecordInfo{
				Owner: keystate.Shown(owner.String), Size: int(size.Int64), ResultNotKept: notKept.Int64 != 0, Trace: keystate.Note(string(trace)), Left: fromMicros(until.Int64 - now),
			}
		}
	}
	if m.owner != "" {
		found.all = append(found.all, &m)
	}
	return nil
}

// info is what was seen, for the caller of Inspect. Of the record, the question has not read everything.
func (s *seen) info() driver.LockInfo {
	s.fill(s.now)
	s.Record = nil
	st := keystate.State{Now: time.UnixMicro(s.now)}
	info := st.Show(s.Key)
	info.Record = s.record
	return info
}
