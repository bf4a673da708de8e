package sqlstore

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

func (m *member) values() []any {
	return []any{
		m.owner, m.inbox, int64(m.token), int64(m.reserved), m.until, m.since, m.ttl, int64(m.flags), []byte(m.rule), []byte(m.trace),
	}
}

// changes returns the statements that write what has changed.
func (t *tx) changes() []statement {
	var changed, gone, members [][]any // the values of rows
	for _, l := range t.locks {
		single := l.single()
		now := make(map[string]bool, len(l.Members))
		for _, m := range l.Members {
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
				[]byte(l.key), waits, int64(m.mode), int64(m.permits), int64(m.nr),
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
	return all
}

// write writes what has changed, and sends messages.
func (t *tx) write() error {
	all, messages := t.changes(), t.messages()
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
