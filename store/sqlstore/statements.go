package sqlstore

import (
	"fmt"
	"slices"
	"strings"
)

// statements are the parts of statements that don't change.
type statements struct {
	lockRows, lockRowsAfter  string // before and behind the list of keys
	load                     string // with the list of keys in its middle
	deleteMember             string
	insert                   upsert // rows for keys that have none
	upsertLock, upsertMember upsert
	upsertRecord             upsert
	upsertForced             upsert
	shortStatements
	renew    string           // of any number of leases; "": the statement depends on the number
	renewAll func(int) string // of so many leases

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
		forcedTable: prefix + "forced", versionTable: prefix + "version", shortStatements: d.shortStatements(prefix),
	}
	lock, member := tableNamed("lock"), tableNamed("member")
	q.upsertLock, q.upsertMember = d.upsertInto(prefix, lock), d.upsertInto(prefix, member)
	q.upsertRecord, q.upsertForced = d.upsertInto(prefix, tableNamed("record")), d.upsertInto(prefix, tableNamed("forced"))
	q.lockRows = "SELECT lock_key FROM " + q.lockTable + " WHERE lock_key IN "
	q.lockRowsAfter = " ORDER BY lock_key FOR UPDATE"
	q.load = "SELECT c.us, " + strings.Join(slices.Concat(lock.fields("l"), member.fields("m")), ", ") + " FROM (SELECT " + d.clock +
		" AS us) c LEFT JOIN " + q.lockTable + " l ON l.lock_key IN %s LEFT JOIN " + q.memberTable + " m ON m.lock_key = l.lock_key"
	q.deleteMember = "DELETE FROM " + q.memberTable + " WHERE "
	q.renew, q.renewAll = d.renewing(q.lockTable)
	q.insert = d.insertInto(q.lockTable)
	return q
}

// insertInto is a statement that inserts the rows of keys, unless they exist.
func (d *dialect) insertInto(lock string) upsert {
	into := d.bounded + "INSERT INTO " + lock + " (lock_key, owner) "
	switch d {
	case &postgres:
		return upsert{into + "SELECT v.lock_key, '' FROM (VALUES ", "(CAST(? AS bytea))", ") v (lock_key), " + patience + " ON CONFLICT (lock_key) DO NOTHING"}
	case &mysql:
		return upsert{into + "VALUES ", "(?, '')", " ON DUPLICATE KEY UPDATE lock_key = lock_key"}
	}
	return upsert{into + "VALUES ", "(?, '')", " ON CONFLICT (lock_key) DO NOTHING"}
}

// fields returns the columns of a table that is joined under that name. If there is no row, numbers
// are 0 and texts empty.
func (t table) fields(as string) []string {
	fields := make([]string, len(t.columns))
	for i, c := range t.columns {
		fields[i] = as + "." + c.name
		switch c.kind {
		case "number", "small":
			fields[i] = "COALESCE(" + fields[i] + ", 0)"
		case "owner":
			fields[i] = "COALESCE(" + fields[i] + ", '')"
		}
	}
	return fields
}
