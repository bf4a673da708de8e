package sqlstore

import (
	"context"
	"database/sql"
	"strings"

	"github.com/keyturn/keyturn/core/driver"
)

// setting is one on which it depends whether the database keeps what was committed.
type setting struct{ ask, name, safe, risk string }

const forgets = "a crash of the server forgets grants, so two owners may hold a key"

// settings are those of a server that may lose what was committed. look warns of them, and examine
// shows them all.
var settings = map[*dialect][]setting{
	&postgres: {
		{"SELECT current_setting('synchronous_commit')", "synchronous_commit", "on remote_apply remote_write", forgets},
		{"SELECT current_setting('fsync')", "fsync", "on", forgets},
	},
	&mysql: {{"SELECT @@innodb_flush_log_at_trx_commit", "innodb_flush_log_at_trx_commit", "1", forgets}},
}

// pragmas are those of a SQLite connection. They are only shown: a program may choose otherwise.
var pragmas = []setting{
	{"PRAGMA synchronous", "synchronous", "2 3", "a power failure forgets grants, so two owners may hold a key"},
	{"PRAGMA journal_mode", "journal_mode", "wal", "readers and writers stop each other"},
	{"PRAGMA busy_timeout", "busy_timeout", "", "a request fails at once while another process writes"},
}

// risky reports whether a value is not a safe one.
func (s setting) risky(value string) bool {
	if s.safe == "" {
		return value == "0"
	}
	return !strings.Contains(" "+s.safe+" ", " "+value+" ")
}

func (s setting) advice() string {
	if s.safe == "" {
		return "set it to 5000"
	}
	return "set it to " + strings.Join(strings.Fields(s.safe), " or ")
}

// value asks the database. A setting that can't be read is "".
func (s *Store) value(ctx context.Context, ask string) (value string) {
	err := s.query(ctx, ask, nil, nil, func(rows *sql.Rows) error { return rows.Scan(&value) })
	if err != nil {
		return ""
	}
	return value
}

// examine implements [driver.Description].Examine. New has looked at the tables already.
func (s *Store) examine(ctx context.Context) []driver.Finding {
	if err := s.calls.Enter(); err != nil {
		return []driver.Finding{{About: "database", Risk: err.Error(), Advice: "open the store again"}}
	}
	defer s.calls.Leave()
	all := settings[s.d]
	if s.d == &sqlite {
		all = pragmas
	}
	var found []driver.Finding
	for _, set := range all {
		f := driver.Finding{About: set.name, Found: s.value(ctx, set.ask)}
		if f.Found != "" && set.risky(f.Found) {
			f.Risk, f.Advice = set.risk, set.advice()
		}
		found = append(found, f)
	}
	return found
}
