package sqlstore

import (
	"context"
	"database/sql"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/keyturn/keyturn/internal/keystate"
)

const (
	keysPerQuery = 500 // named in one question
	rowsPerWrite = 500 // written by one statement; a row has 17 values
)

// list returns the placeholders and arguments for keys.
func list(keys []string) (string, []any) {
	args := make([]any, len(keys))
	for i, key := range keys {
		args[i] = []byte(key)
	}
	return "(" + marks(len(keys)) + ")", args
}

// insert makes rows for keys that have none. They are in order, so that two processes don't
// deadlock.
func (s *Store) insert(ctx context.Context, keys []string) error {
	for chunk := range slices.Chunk(keys, rowsPerWrite) {
		_, args := list(chunk)
		if err := s.exec(ctx, s.q.insert.of(len(chunk)), args...); err != nil {
			return err
		}
	}
	return nil
}

// open begins the transaction, and locks the rows of keys in the order of the keys. Nothing has
// been read before, so all that is read from now on is what the others have left.
func (t *tx) open(keys []string) error {
	d := t.s.d
	switch {
	case d == &postgres && len(keys) <= keysPerQuery && !t.separate && t.mode != skipping:
		return t.openAtOnce(keys)
	case t.s.mariaDB && len(keys) <= keysPerQuery:
		in, args := list(keys)
		return t.lockRows(beginMariaDB+t.s.q.lockRows+in+t.lockRowsAfter()+"; END", args)
	case t.s.mariaDB:
		if err := t.exec(beginMariaDB + "END"); err != nil {
			return err
		}
	default:
		for _, statement := range d.begin {
			if err := t.exec(statement); err != nil {
				return err
			}
		}
	}
	if d == &sqlite {
		t.locked = -1 // its BEGIN locks the whole database
		return nil
	}
	for chunk := range slices.Chunk(keys, keysPerQuery) {
		in, args := list(chunk)
		if err := t.lockRows(t.s.q.lockRows+in+t.lockRowsAfter(), args); err != nil {
			return err
		}
	}
	return nil
}

// lockRows runs a statement that locks rows, and notes their keys.
func (t *tx) lockRows(query string, args []any) error {
	if t.own == nil {
		t.own = make(map[string]bool)
	}
	return t.query(query, args, func(rows *sql.Rows) error {
		var key []byte
		err := rows.Scan(&key)
		t.own[string(key)] = true
		t.locked++
		return err
	})
}

// lockRowsAfter is what follows the list of keys.
func (t *tx) lockRowsAfter() string {
	if t.mode == skipping {
		return t.s.q.lockRowsAfter + " SKIP LOCKED"
	}
	return t.s.q.lockRowsAfter
}

// openAtOnce does so in one round trip. Only statements without arguments can be sent together. The
// keys are in hexadecimal digits, so they can't be taken for anything else, whatever the session takes
// a backslash for.
func (t *tx) openAtOnce(keys []string) error {
	literals := make([]string, len(keys))
	for i, key := range keys {
		literals[i] = "decode('" + hex.EncodeToString([]byte(key)) + "', 'hex')"
	}
	lock := t.s.q.lockRows + "(" + strings.Join(literals, ", ") + ")" + t.s.q.lockRowsAfter
	res, err := t.conn.ExecContext(t.ctx, strings.Join(t.s.d.begin, "; ")+"; "+lock)
	if err != nil {
		return t.s.denied(err)
	}
	n, err := res.RowsAffected()
	t.locked = int(n)
	return err
}

// load reads the rows of keys, which are in order.
func (t *tx) load(keys []string) error {
	for _, key := range keys {
		t.locks = append(t.locks, &lock{Key: &keystate.Key{Name: key}})
	}
	for chunk := range slices.Chunk(keys, keysPerQuery) {
		in, args := list(chunk)
		if err := t.query(fmt.Sprintf(t.s.q.load, in), args, t.scan); err != nil {
			return err
		}
	}
	if t.mode == skipping && t.locked >= 0 { // it leaves out the keys whose rows others have locked
		t.locks = slices.DeleteFunc(t.locks, func(l *lock) bool { return l.exists && !t.own[l.Name] })
	}
	var none []string
	for _, l := range t.locks {
		if !l.exists {
			none = append(none, l.Name)
		}
	}
	switch {
	case t.locked >= 0 && t.locked != len(t.locks)-len(none):
		return errUnlocked
	case t.mode == creating && len(none) > 0:
		return missing{none}
	}
	t.State = keystate.State{Now: time.UnixMicro(t.now), Rules: &t.s.rules}
	for _, l := range t.locks {
		l.fill(t.now)
		t.Keys = append(t.Keys, l.Key)
		if t.records && l.Record != nil {
			if err := t.loadRecord(l); err != nil {
				return err
			}
		}
	}
	return nil
}

// scan reads a row of [statements.load]: a lock with one of its members, if it has any.
func (t *tx) scan(rows *sql.Rows) error {
	key, was, m, now, err := readRow(rows)
	if err != nil {
		return err
	}
	t.now = max(t.now, now)
	if key == "" {
		return nil // none of the keys has a row
	}
	l := t.lock(key)
	l.exists, l.was = true, was
	if m.owner != "" {
		l.all = append(l.all, &m)
	}
	return nil
}

// readRow reads the clock, a lock and a member. more are the destinations of further columns.
func readRow(rows *sql.Rows, more ...any) (key string, r lockRow, m row, now micros, err error) {
	var name, rule, trace, memberKey, memberRule, memberTrace []byte
	var waits int
	h := &r.holder
	err = rows.Scan(append([]any{
		&now,
		&name, &r.last, &r.mode, &r.through, &r.arrived, &r.members, &r.recordUntil,
		&h.owner, &h.inbox, &h.token, &h.reserved, &h.until, &h.since, &h.ttl, &h.flags, &rule, &trace,
		&memberKey, &waits, &m.mode, &m.permits, &m.nr,
		&m.owner, &m.inbox, &m.token, &m.reserved, &m.until, &m.since, &m.ttl, &m.flags, &memberRule, &memberTrace,
	}, more...)...)
	h.rule, h.trace = string(rule), string(trace)
	m.waits, m.rule, m.trace = waits != 0, string(memberRule), string(memberTrace)
	return string(name), r, m, now, err
}
