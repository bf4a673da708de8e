package sqlstore

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/keyturn/keyturn/internal/keystate"
)

func (r *row) values() []any {
	return []any{
		r.owner, r.inbox, int64(r.token), int64(r.reserved), r.until, r.since, r.ttl, int64(r.flags), []byte(r.rule), []byte(r.trace),
	}
}

// changes returns the statements that write what has changed.
func (t *tx) changes() []statement {
	var gone, members, locks, records, forced [][]any // the values of rows
	for _, l := range t.locks {
		left, new := l.changes()
		gone, members = append(gone, left...), append(members, new...)
		if r := l.row(); r != l.was {
			locks = append(locks, append([]any{
				[]byte(l.Name), int64(r.last), int64(r.mode), int64(r.through), int64(r.arrived), int64(r.members), r.recordUntil,
			}, r.holder.values()...))
		}
		if r := l.Record; r != nil && r != l.record {
			records = append(records, []any{
				[]byte(l.Name), r.Owner, endOf(r.Until), r.Fingerprint, r.Result, number(r.ResultNotKept), []byte(r.Trace),
			})
		}
	}
	for _, f := range t.Forced {
		forced = append(forced, []any{[]byte(f.Key), f.Owner, int64(f.Token), t.now + toMicros(keystate.ReasonKept), []byte(f.Reason)})
	}
	q := &t.s.q
	var all []statement
	for _, w := range []struct {
		of   func(int) string
		rows [][]any
	}{{q.deleteOf, gone}, {q.upsertMember.of, members}, {q.upsertLock.of, locks}, {q.upsertRecord.of, records}, {q.upsertForced.of, forced}} {
		for chunk := range slices.Chunk(w.rows, rowsPerWrite) {
			all = append(all, statement{w.of(len(chunk)), slices.Concat(chunk...)})
		}
	}
	return all
}

// changes compares the members of a lock with the rows in the table of members. It returns those that have
// left it, and the values of those that are new or have changed.
func (l *lock) changes() (gone, members [][]any) {
	single := l.single()
	for _, m := range slices.Concat(l.Holders(), l.Waiters()) {
		if m == single {
			continue
		}
		r := rowOf(m)
		if was, ok := m.Ref.(*row); ok && *was == r {
			continue
		}
		members = append(members, append([]any{
			[]byte(l.Name), number(r.waits), int64(r.mode), int64(r.permits), int64(r.nr),
		}, r.values()...))
	}
	for _, was := range l.all {
		if m := l.Find(was.owner); m == nil || m == single {
			gone = append(gone, []any{[]byte(l.Name), was.owner})
		}
	}
	return gone, members
}

// number is a truth value as a column has it.
func number(is bool) int64 {
	if is {
		return 1
	}
	return 0
}

// mostAtOnce is how many statements leave in one request: each kind once, so they write different rows.
const mostAtOnce = 5

// write writes what has changed, and sends messages.
func (t *tx) write() error {
	all, messages := t.changes(), t.messages()
	if t.s.d == &postgres && len(all)+len(messages.args) > 1 && len(all) <= mostAtOnce {
		return t.writeAtOnce(all, messages)
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

// writeAtOnce runs statements about different rows, and the sending of messages, in one round trip.
func (t *tx) writeAtOnce(all []statement, messages statement) error {
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
