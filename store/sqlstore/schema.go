package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
)

// column is a column of a table, with its definition. kind is one of the dialect's types.
type column struct{ name, kind, rest string }

// table is one of the store's tables. Its name follows the prefix.
type table struct {
	name    string
	key     string // the columns of the primary key
	columns []column
	index   string // a column with an index of its own; "": none
}

// The columns of a holder or waiter, which stand in the lock's row for an exclusive holder.
var memberColumns = []column{
	{"owner", "owner", "NOT NULL"},
	{"inbox", "owner", "NOT NULL DEFAULT ''"}, // where messages reach its process; of a holder only if its lease lingers
	{"token", "number", "NOT NULL DEFAULT 0"},
	{"reserved", "number", "NOT NULL DEFAULT 0"}, // the tokens after it that are its own; of a waiter, as many as it wants
	{"until", "number", "NOT NULL DEFAULT 0"},    // times are microseconds since 1970, durations microseconds
	{"since", "number", "NOT NULL DEFAULT 0"},
	{"ttl", "number", "NOT NULL DEFAULT 0"},
	{"flags", "small", "NOT NULL DEFAULT 0"},
	{"rule", "note", "NULL"},
	{"trace", "note", "NULL"},
}

var tables = []table{
	{name: "lock", key: "lock_key", columns: append([]column{
		{"lock_key", "key", "NOT NULL"},
		{"last", "number", "NOT NULL DEFAULT 0"}, // the greatest token given or reserved
		{"mode", "small", "NOT NULL DEFAULT 0"},  // of the holders or, if there are none, of the last ones
		{"through", "number", "NOT NULL DEFAULT 0"},
		{"arrived", "number", "NOT NULL DEFAULT 0"},
		{"members", "number", "NOT NULL DEFAULT 0"}, // rows of the key in the table of members
		{"record_until", "number", "NOT NULL DEFAULT 0"},
	}, memberColumns...)},
	{name: "member", key: "lock_key, owner", index: "owner", columns: append([]column{
		{"lock_key", "key", "NOT NULL"},
		{"waits", "small", "NOT NULL"},
		{"mode", "small", "NOT NULL"},
		{"permits", "number", "NOT NULL"},
		{"nr", "number", "NOT NULL"}, // order of arrival
	}, memberColumns...)},
	{name: "record", key: "lock_key", columns: []column{
		{"lock_key", "key", "NOT NULL"},
		{"owner", "owner", "NOT NULL"},
		{"until", "number", "NOT NULL"},
		{"fingerprint", "blob", "NULL"},
		{"result", "blob", "NULL"},
		{"not_kept", "small", "NOT NULL"},
		{"trace", "note", "NULL"},
	}},
	{name: "forced", key: "lock_key, owner", columns: []column{
		{"lock_key", "key", "NOT NULL"},
		{"owner", "owner", "NOT NULL"},
		{"token", "number", "NOT NULL"},
		{"until", "number", "NOT NULL"},
		{"reason", "blob", "NULL"},
	}},
	{name: "version", key: "lock_key", columns: []column{
		{"lock_key", "key", "NOT NULL"},
		{"version", "number", "NOT NULL"},
		{"until", "number", "NOT NULL"},
	}},
}

// names returns the columns' names.
func (t table) names() []string {
	names := make([]string, len(t.columns))
	for i, c := range t.columns {
		names[i] = c.name
	}
	return names
}

// create returns the statements that make the tables, if they do not exist.
func (d *dialect) create(prefix string) []string {
	var all []string
	for _, t := range tables {
		var lines []string
		for _, c := range t.columns {
			lines = append(lines, fmt.Sprintf("  %s %s %s", c.name, d.types[c.kind], c.rest))
		}
		lines = append(lines, "  PRIMARY KEY ("+t.key+")")
		if t.index != "" && d == &mysql { // MySQL, unlike MariaDB, can't say IF NOT EXISTS for an index
			lines = append(lines, fmt.Sprintf("  INDEX %s_%s (%s)", t.name, t.index, t.index))
		}
		all = append(all, fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s%s (\n%s\n)%s", prefix, t.name, strings.Join(lines, ",\n"), d.table))
		if t.index != "" && d != &mysql {
			all = append(all, fmt.Sprintf("CREATE INDEX IF NOT EXISTS %s%s_%s ON %s%s (%s)", prefix, t.name, t.index, prefix, t.name, t.index))
		}
	}
	return all
}

// Schema returns the SQL statements that make the store's tables, each with a semicolon at its
// end, for those who change their databases by scripts. Of the options, only [WithPrefix]
// counts. The error joins every [*driver.OptionError].
func Schema(d Dialect, opts ...Option) (string, error) {
	cfg, err := configure(d, opts)
	if err != nil {
		return "", err
	}
	return strings.Join(d.create(cfg.prefix), ";\n\n") + ";\n", nil
}

// Migrate makes the store's tables where they do not exist. It is safe to call it at the start
// of each process. It needs the permission to create tables, which [New] does not need. Of the
// options, only [WithPrefix] counts. The error matches [ErrNoDatabase] if the database itself does not
// exist, and otherwise driver.ErrUnavailable.
func Migrate(ctx context.Context, db *sql.DB, d Dialect, opts ...Option) error {
	cfg, err := configure(d, opts)
	if err != nil {
		return err
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("sqlstore: migrate: %w", opening(err))
	}
	defer conn.Close()
	for _, statement := range d.create(cfg.prefix) {
		if err := created(ctx, conn, statement); err != nil {
			return fmt.Errorf("sqlstore: migrate: %w", opening(err))
		}
	}
	return nil
}

// created runs a statement of the schema. Two processes that make the same table at the same
// moment can fail on PostgreSQL, in spite of IF NOT EXISTS.
func created(ctx context.Context, conn *sql.Conn, statement string) (err error) {
	for range 3 {
		if _, err = conn.ExecContext(ctx, statement); err == nil {
			return nil
		}
	}
	return err
}
