package sqlstore

import (
	"context"
	"database/sql"
	"slices"
	"strings"

	"github.com/keyturn/keyturn/core/driver"
)

// setting is one on which it depends whether the database keeps what was committed. It is right if it is
// among the words of safe or, if these are not known, if it is not wrong.
type setting struct{ ask, name, safe, wrong, risk, advice string }

const forgets = "a crash of the server forgets grants, so two owners may hold a key"

// settings are those of a server that may lose what was committed. look warns of them, and examine
// shows them all.
var settings = map[*dialect][]setting{
	&postgres: {
		{"SELECT current_setting('synchronous_commit')", "synchronous_commit", "on remote_apply remote_write", "", forgets, ""},
		{"SELECT current_setting('fsync')", "fsync", "on", "", forgets, ""},
	},
	&mysql: {{"SELECT @@innodb_flush_log_at_trx_commit", "innodb_flush_log_at_trx_commit", "1", "", forgets, ""}},
}

// standby is only shown: a program that fences may do without it. Every user
// of a server may count its replicas.
var standby = setting{
	`SELECT CASE WHEN current_setting('synchronous_standby_names') <> '' THEN current_setting('synchronous_standby_names')
		WHEN EXISTS (SELECT FROM pg_stat_replication) THEN 'none, and a replica' ELSE 'none, and no replica' END`,
	"synchronous_standby_names", "", "none, and a replica",
	"a failover forgets the last grants, so two owners may hold a key", "name the replica, if a failover must not forget grants",
}

// pragmas are those of a SQLite connection. They are only shown: a program may choose otherwise.
var pragmas = []setting{
	{"PRAGMA synchronous", "synchronous", "2 3", "", "a power failure forgets grants, so two owners may hold a key", ""},
	{"PRAGMA journal_mode", "journal_mode", "wal", "", "readers and writers stop each other", ""},
	{"PRAGMA busy_timeout", "busy_timeout", "", "0", "a request fails at once while another process writes", "set it to 5000"},
}

// risky reports whether a value is not a safe one.
func (s setting) risky(value string) bool {
	if s.safe == "" {
		return value == s.wrong
	}
	return !strings.Contains(" "+s.safe+" ", " "+value+" ")
}

func (s setting) fix() string {
	if s.advice != "" {
		return s.advice
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
	switch s.d {
	case &postgres:
		all = append(slices.Clone(all), standby)
	case &sqlite:
		all = pragmas
	}
	var found []driver.Finding
	for _, set := range all {
		f := driver.Finding{About: set.name, Found: s.value(ctx, set.ask)}
		if f.Found != "" && set.risky(f.Found) {
			f.Risk, f.Advice = set.risk, set.fix()
		}
		found = append(found, f)
	}
	return found
}
