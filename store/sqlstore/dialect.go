package sqlstore

import (
	"strconv"
	"strings"
)

// Dialect is the kind of a database.
type Dialect struct{ *dialect }

// The dialects.
var (
	// Postgres is PostgreSQL.
	Postgres = Dialect{&postgres}
	// MySQL is MariaDB, and MySQL with InnoDB.
	MySQL = Dialect{&mysql}
	// SQLite is SQLite 3.42 or later.
	SQLite = Dialect{&sqlite}
)

// String returns "postgres", "mysql" or "sqlite".
func (d Dialect) String() string {
	if d.dialect == nil {
		return "no dialect"
	}
	return d.name
}

// dialect is what differs between the databases.
type dialect struct {
	name string
	// clock is an expression for the database's clock in microseconds. On MySQL it is the
	// beginning of the statement; on the others the moment when the row is looked at.
	clock string
	// begin starts a transaction. It must not change the session beyond that transaction. MariaDB has
	// more: [beginMariaDB].
	begin []string
	// bound is put behind the changes of an UPDATE, and bounded before a statement, so that it waits for
	// no row for long.
	bound, bounded string
	// commits is a condition of statements of their own: they are committed at once.
	commits string
	// greatest and least are functions of two numbers.
	greatest, least string
	returning       bool // INSERT and UPDATE have RETURNING

	// upsert is put between the values of an INSERT and the list of changes. The new value of
	// column c is value(c).
	upsert func(primaryKey string) string
	value  func(column string) string

	types map[string]string // of columns, by their kinds
	table string            // behind the columns of a table
}

// most is how many connections are of use at a time. SQLite has one writer at a time, and the others
// would only sleep in between.
func (d *dialect) most(wanted int) int {
	if d == &sqlite {
		return 1
	}
	return wanted
}

// bind makes a statement and its arguments what this dialect sends. No statement has a question mark
// for anything but an argument.
func (d *dialect) bind(query string, args []any) (string, []any) {
	switch d {
	case &postgres:
		return numbered(query), args
	case &mysql:
		return literally(query, args)
	}
	return query, args
}

// numbered is a statement with the placeholders of PostgreSQL.
func numbered(query string) string {
	if !strings.Contains(query, "?") {
		return query
	}
	n := 0
	return fill(query, func(b *strings.Builder) {
		n++
		b.WriteString("$" + strconv.Itoa(n))
	})
}

// fill replaces each question mark by what arg writes.
func fill(query string, arg func(*strings.Builder)) string {
	var b strings.Builder
	b.Grow(2 * len(query))
	for {
		before, after, more := strings.Cut(query, "?")
		b.WriteString(before)
		if !more {
			return b.String()
		}
		arg(&b)
		query = after
	}
}

// marks returns n placeholders.
func marks(n int) string { return strings.TrimSuffix(strings.Repeat("?,", n), ",") }

func onConflict(primaryKey string) string { return "ON CONFLICT (" + primaryKey + ") DO UPDATE SET " }

func excluded(column string) string { return "excluded." + column }

var postgres = dialect{
	name:     "postgres",
	clock:    "(extract(epoch FROM clock_timestamp())*1000000)::bigint",
	begin:    []string{beginPostgres},
	bound:    " FROM " + patience,
	greatest: "greatest", least: "least",
	returning: true,
	upsert:    onConflict, value: excluded,
	types: map[string]string{
		"key": "bytea", "owner": `text COLLATE "C"`, "note": "bytea", "blob": "bytea", "number": "bigint", "small": "smallint",
	},
	// Rows change often, and no index but the key changes with them: a change then stays on
	// its page, if there is room.
	table: " WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02)",
}

var mysql = dialect{
	name: "mysql",
	// Not now(), which depends on the session's time zone.
	clock: "timestampdiff(MICROSECOND, '1970-01-01', utc_timestamp(6))",
	// The level is for the next transaction only. At the default level, locks on gaps between
	// rows deadlock with each other.
	begin:    []string{"SET TRANSACTION ISOLATION LEVEL READ COMMITTED", "START TRANSACTION"},
	bounded:  boundRows,
	commits:  " AND @@autocommit = 1",
	greatest: "greatest", least: "least",
	upsert: func(string) string { return "ON DUPLICATE KEY UPDATE " },
	value:  func(column string) string { return "VALUES(" + column + ")" },
	types: map[string]string{
		"key": "varbinary(512)", "owner": "varbinary(255)", "note": "varbinary(256)", "blob": "longblob", "number": "bigint", "small": "smallint",
	},
	table: " ENGINE=InnoDB",
}

var sqlite = dialect{
	name: "sqlite",
	// It has milliseconds. The detour keeps them exact.
	clock:    "(CAST(unixepoch('subsec')*1000 + 0.5 AS INTEGER)*1000)",
	begin:    []string{"BEGIN IMMEDIATE"}, // one writer at a time; the others wait here
	greatest: "max", least: "min",
	returning: true,
	upsert:    onConflict, value: excluded,
	types: map[string]string{"key": "BLOB", "owner": "TEXT", "note": "BLOB", "blob": "BLOB", "number": "INTEGER", "small": "INTEGER"},
}
