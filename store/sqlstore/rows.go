package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/keyturn/keyturn/core/driver"
)

const (
	keysPerQuery = 500 // named in one question
	rowsPerWrite = 500 // written by one statement; a row has 16 values
)

// statements are the parts of statements that don't change.
type statements struct {
	loadLocks, loadMembers   string // up to the list of keys
	lockAfter                string // behind that list
	insert, deleteMember     string
	upsertLock, upsertMember upsert

	shortly

	lockTable, memberTable, recordTable, forcedTable, versionTable string
}

// upsert is a statement that inserts rows, or changes those that exist.
type upsert struct{ head, row, tail string }

// of returns the statement for n rows.
func (u upsert) of(n int) string {
	return u.head + strings.TrimSuffix(strings.Repeat(u.row+",", n), ",") + u.tail
}

func (d *dialect) upsertInto(prefix string, t table) upsert {
	names := t.names()
	var changes []string
	for _, name := range names {
		if !strings.Contains(" "+strings.ReplaceAll(t.key, ",", "")+" ", " "+name+" ") {
			changes = append(changes, name+" = "+d.value(name))
		}
	}
	return upsert{
		head: fmt.Sprintf("INSERT INTO %s%s (%s) VALUES ", prefix, t.name, strings.Join(names, ", ")),
		row:  "(" + marks(len(names)) + ")",
		tail: " " + d.upsert(t.key) + strings.Join(changes, ", "),
	}
}

func tableNamed(name string) table {
	return tables[slices.IndexFunc(tables, func(t table) bool { return t.name == name })]
}

func (d *dialect) statements(prefix string) statements {
	q := statements{
		lockTable: prefix + "lock", memberTable: prefix + "member", recordTable: prefix + "record",
		forcedTable: prefix + "forced", versionTable: prefix + "version", shortly: d.shortly(prefix),
	}
	lock, member := tableNamed("lock"), tableNamed("member")
	q.upsertLock, q.upsertMember = d.upsertInto(prefix, lock), d.upsertInto(prefix, member)
	q.loadLocks = "SELECT " + strings.Join(lock.names(), ", ") + " FROM " + q.lockTable + " WHERE lock_key IN "
	q.lockAfter = " ORDER BY lock_key" + d.forUpdate
	var fields []string
	for _, c := range member.columns {
		switch c.kind {
		case "number", "small":
			fields = append(fields, "COALESCE(m."+c.name+", 0)")
		case "owner":
			fields = append(fields, "COALESCE(m."+c.name+", '')")
		default:
			fields = append(fields, "m."+c.name)
		}
	}
	q.loadMembers = "SELECT c.us, " + strings.Join(fields, ", ") + " FROM (SELECT " + d.clock + " AS us) c LEFT JOIN " +
		q.memberTable + " m ON m.lock_key IN "
	q.deleteMember = "DELETE FROM " + q.memberTable + " WHERE "
	q.insert = "INSERT INTO " + q.lockTable + " (lock_key, owner) VALUES "
	return q
}

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
		var args []any
		for _, key := range chunk {
			args = append(args, []byte(key), "")
		}
		rows := strings.TrimSuffix(strings.Repeat("(?,?),", len(chunk)), ",")
		tail := " ON CONFLICT (lock_key) DO NOTHING"
		if s.d == &mysql {
			tail = " ON DUPLICATE KEY UPDATE lock_key = lock_key"
		}
		if _, err := s.exec(ctx, s.q.insert+rows+tail, args...); err != nil {
			return err
		}
	}
	return nil
}

// load locks and reads the rows of keys, which are in order.
func (t *tx) load(keys []string, create bool) error {
	for _, key := range keys {
		t.locks = append(t.locks, &lock{key: key})
	}
	for chunk := range slices.Chunk(keys, keysPerQuery) {
		in, args := list(chunk)
		if err := t.query(t.s.q.loadLocks+in+t.s.q.lockAfter, args, t.scanLock); err != nil {
			return err
		}
	}
	var none []string
	for _, l := range t.locks {
		if !l.exists {
			none = append(none, l.key)
		}
	}
	if create && len(none) > 0 {
		return missing{none}
	}
	for chunk := range slices.Chunk(keys, keysPerQuery) {
		in, args := list(chunk)
		if err := t.query(t.s.q.loadMembers+in, args, t.scanMember); err != nil {
			return err
		}
	}
	for _, l := range t.locks {
		l.members = slices.DeleteFunc(l.members, func(m *member) bool { return m.until <= t.now })
		l.sort()
	}
	return nil
}

// scanLock reads a row of the table of locks.
func (t *tx) scanLock(rows *sql.Rows) error {
	key, r, err := readLock(rows)
	if err != nil {
		return err
	}
	l := t.lock(key)
	l.exists, l.stored.row = true, r
	l.last, l.arrived, l.recordUntil = r.last, r.arrived, r.recordUntil
	l.phase.Mode, l.phase.Through = r.mode, r.through
	if r.holder.owner != "" {
		h := r.holder
		h.mode = r.mode
		l.members = append(l.members, &h)
	}
	return nil
}

func readLock(rows *sql.Rows) (key string, r lockRow, err error) {
	var name, rule, trace []byte
	h := &r.holder
	err = rows.Scan(&name, &r.last, &r.mode, &r.through, &r.arrived, &r.members, &r.recordUntil,
		&h.owner, &h.token, &h.reserved, &h.until, &h.since, &h.ttl, &h.flags, &rule, &trace)
	h.rule, h.trace = string(rule), string(trace)
	return string(name), r, err
}

// scanMember reads a row of the table of members, or one that has the clock alone.
func (t *tx) scanMember(rows *sql.Rows) error {
	key, m, now, err := readMember(rows)
	if err != nil {
		return err
	}
	t.now = max(t.now, now)
	if m.owner == "" {
		return nil
	}
	l := t.lock(key)
	if l.stored.members == nil {
		l.stored.members = make(map[string]member)
	}
	l.stored.members[m.owner] = m
	l.members = append(l.members, &m)
	return nil
}

func readMember(rows *sql.Rows) (key string, m member, now micros, err error) {
	var name, rule, trace []byte
	var waits int
	err = rows.Scan(&now, &name, &waits, &m.mode, &m.permits, &m.nr, &m.inbox,
		&m.owner, &m.token, &m.reserved, &m.until, &m.since, &m.ttl, &m.flags, &rule, &trace)
	m.waits, m.rule, m.trace = waits != 0, string(rule), string(trace)
	return string(name), m, now, err
}

func (m *member) values() []any {
	return []any{
		m.owner, int64(m.token), int64(m.reserved), m.until, m.since, m.ttl, int64(m.flags), []byte(m.rule), []byte(m.trace),
	}
}

// write writes what has changed.
func (t *tx) write() error {
	var changed, gone, members [][]any // the values of rows
	for _, l := range t.locks {
		single := l.single()
		now := make(map[string]bool, len(l.members))
		for _, m := range l.members {
			if m == single {
				continue
			}
			now[m.owner] = true
			if before, ok := l.stored.members[m.owner]; ok && before == *m {
				continue
			}
			waits := int64(0)
			if m.waits {
				waits = 1
			}
			members = append(members, append([]any{
				[]byte(l.key), waits, int64(m.mode), int64(m.permits), int64(m.nr), m.inbox,
			}, m.values()...))
		}
		for owner := range l.stored.members {
			if !now[owner] {
				gone = append(gone, []any{[]byte(l.key), owner})
			}
		}
		if r := l.row(); r != l.stored.row {
			changed = append(changed, append([]any{
				[]byte(l.key), int64(r.last), int64(r.mode), int64(r.through), int64(r.arrived), int64(r.members), r.recordUntil,
			}, r.holder.values()...))
		}
	}
	var all []statement
	for _, w := range []struct {
		of   func(int) string
		rows [][]any
	}{{t.s.q.deleteOf, gone}, {t.s.q.upsertMember.of, members}, {t.s.q.upsertLock.of, changed}} {
		for chunk := range slices.Chunk(w.rows, rowsPerWrite) {
			all = append(all, statement{w.of(len(chunk)), slices.Concat(chunk...)})
		}
	}
	messages := t.messages()
	if t.s.d == &postgres && len(all)+len(messages.args) > 1 && len(all) <= 3 {
		return t.together(all, messages)
	}
	for _, one := range all {
		if err := t.exec(one.text, one.args...); err != nil {
			return err
		}
	}
	if messages.text != "" {
		return t.exec("SELECT "+messages.text, messages.args...)
	}
	return nil
}

// statement is one statement, or a part of one, with its arguments.
type statement struct {
	text string
	args []any
}

// together runs statements about different rows, and the sending of messages, in one round trip.
func (t *tx) together(all []statement, messages statement) error {
	var parts []string
	var args []any
	for i, one := range all {
		parts = append(parts, fmt.Sprintf("w%d AS (%s)", i, one.text))
		args = append(args, one.args...)
	}
	text := cmp.Or(messages.text, "1")
	if len(parts) > 0 {
		text = "WITH " + strings.Join(parts, ", ") + " SELECT " + text
	} else {
		text = "SELECT " + text
	}
	return t.exec(text, append(args, messages.args...)...)
}

// deleteOf returns the statement that deletes n members.
func (q *statements) deleteOf(n int) string {
	return q.deleteMember + strings.TrimSuffix(strings.Repeat("lock_key = ? AND owner = ? OR ", n), " OR ")
}

// keysOf returns the keys of claims, which are in order.
func keysOf(claims []driver.Claim) []string {
	keys := make([]string, len(claims))
	for i, c := range claims {
		keys[i] = c.Key
	}
	return keys
}
