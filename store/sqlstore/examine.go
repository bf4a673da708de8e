package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/waitloop"
)

// setting is one on which it depends whether the database keeps what was committed. It is right if it is
// among those of safe, which are separated by |, or, if these are not known, if it is not wrong.
type setting struct{ ask, name, safe, wrong, risk, advice string }

const forgets = "a crash of the server forgets grants, so two owners may hold a key"

// settings are those of a server that may lose what was committed. check warns of them, and examine
// shows them all.
var settings = map[*dialect][]setting{
	&postgres: {
		{"SELECT current_setting('synchronous_commit')", "synchronous_commit", "on|remote_apply|remote_write", "", forgets, ""},
		{"SELECT current_setting('fsync')", "fsync", "on", "", forgets, ""},
	},
	&mysql: {{"SELECT @@innodb_flush_log_at_trx_commit", "innodb_flush_log_at_trx_commit", "1", "", forgets, ""}},
}

const overlaps = "two owners may hold a key"

// required are settings of sessions without which two owners could hold a key. check refuses them, and
// examine shows them.
var required = map[*dialect][]setting{
	&postgres: {{
		// The server ends a statement that takes longer. If the statement waits for a replica, it reports success.
		fmt.Sprintf(`SELECT CASE WHEN setting = '0' THEN 'off' WHEN current_setting('synchronous_standby_names') = '' THEN 'no replica is waited for'
			WHEN setting::bigint > %d THEN 'long enough' ELSE setting || ' ms' END FROM pg_catalog.pg_settings WHERE name = 'statement_timeout'`, 2*opTimeout.Milliseconds()),
		"statement_timeout", "off|no replica is waited for|long enough", "", overlaps, fmt.Sprintf("set it to 0, or to more than %v", 2*opTimeout),
	}},
	&mysql: {
		{"SELECT @@autocommit", "autocommit", "1", "", overlaps, ""},
		// The store's transactions are READ COMMITTED, which that format does not know: each one would fail.
		{"SELECT CASE WHEN @@log_bin = 1 THEN @@binlog_format ELSE 'off' END", "binlog_format", "ROW|MIXED|off", "", "every transaction fails", "set it to ROW or MIXED"},
		{
			"SELECT CASE WHEN @@sql_select_limit < 1000000 THEN CONCAT(@@sql_select_limit, ' rows') ELSE 'off' END",
			"sql_select_limit", "off", "", overlaps, "set it to DEFAULT",
		},
		{
			"SELECT CASE WHEN @@sql_mode LIKE '%EMPTY_STRING_IS_NULL%' THEN 'EMPTY_STRING_IS_NULL' WHEN @@sql_mode LIKE '%ORACLE%' THEN 'ORACLE' ELSE 'ok' END",
			"sql_mode", "ok", "", "the statements mean something else", "leave out EMPTY_STRING_IS_NULL and ORACLE",
		},
	},
}

// shown are settings that examine shows, and check leaves to the program.
var shown = map[*dialect][]setting{
	&postgres: {
		{"SELECT current_setting('transaction_read_only')", "transaction_read_only", "off", "", "no request succeeds", ""}, // each request says so
		{
			// A program that fences may do without it. Every user of a server may count its replicas.
			`SELECT CASE WHEN current_setting('synchronous_standby_names') <> '' THEN current_setting('synchronous_standby_names')
				WHEN EXISTS (SELECT FROM pg_stat_replication) THEN 'none, and a replica' ELSE 'none, and no replica' END`,
			"synchronous_standby_names", "", "none, and a replica",
			"a failover forgets the last grants, so two owners may hold a key", "name the replica, if a failover must not forget grants",
		},
	},
	&mysql: {{
		"SELECT CASE WHEN @@tx_read_only = 1 OR @@global.read_only = 1 THEN 'on' ELSE 'off' END", "tx_read_only, read_only", "off", "", "no request succeeds", "",
	}},
	&sqlite: { // of a connection
		{"PRAGMA synchronous", "synchronous", "2|3", "", "a power failure forgets grants, so two owners may hold a key", ""},
		{"PRAGMA journal_mode", "journal_mode", "wal", "", "readers and writers stop each other", ""},
		{"PRAGMA busy_timeout", "busy_timeout", "", "0", "a request fails at once while another process writes", "set it to 5000"},
	},
}

// risky reports whether a value is not a safe one.
func (s setting) risky(value string) bool {
	if s.safe == "" {
		return value == s.wrong
	}
	return !slices.Contains(strings.Split(s.safe, "|"), value)
}

func (s setting) fix() string {
	if s.advice != "" {
		return s.advice
	}
	return "set it to " + strings.ReplaceAll(s.safe, "|", " or ")
}

// value asks the database. A setting that can't be read is "".
func (s *Store) value(ctx context.Context, ask string) (value string) {
	err := s.query(ctx, ask, nil, nil, func(rows *sql.Rows) error { return rows.Scan(&value) })
	if err != nil {
		return ""
	}
	return value
}

// listenTime is how long examineMessages waits for the first connection of a waker.
const listenTime = 3 * time.Second

// examineMessages says how waiters learn of their turn.
func (s *Store) examineMessages(ctx context.Context) driver.Finding {
	f := driver.Finding{About: "messages", Found: fmt.Sprintf("none: waiters look, every %v at last", s.cfg.poll)}
	if s.cfg.waker == nil {
		return f
	}
	ctx, cancel := context.WithTimeout(ctx, listenTime)
	defer cancel()
	server, err := s.cfg.waker.Server()
	for server == "" && err == nil && waitloop.Sleep(ctx, 10*time.Millisecond) {
		server, err = s.cfg.waker.Server()
	}
	if err == nil && server == "" {
		err = ctx.Err()
	}
	f.Found = "from " + server
	if err != nil {
		f.Found, f.Risk = "none arrive", err.Error()
		f.Advice = "lead it to the server itself, or do without (waker=off in the URL): see Messages in docs/operations-sql.md"
	}
	return f
}

// examineWarnings says whether the store notices that a COMMIT did not wait for its replica. It matters only
// if there is one to wait for.
func (s *Store) examineWarnings(ctx context.Context) driver.Finding {
	f := driver.Finding{About: "warnings", Found: "no replica is waited for"}
	ask := "SELECT CASE WHEN current_setting('synchronous_standby_names') = '' THEN '' ELSE current_setting('client_min_messages') END"
	level := s.value(ctx, ask)
	if level == "" {
		return f
	}
	seen := level != "error" && s.sees(ctx)
	f.Found = "noticed"
	if !seen {
		f.Found, f.Risk = "not noticed", "if an administrator cancels a COMMIT that waits for the replica, two owners may hold a key after a failover"
		f.Advice = "open the store by its URL with pgx/pgwake linked, or use pgwake.OnNotice in the pool"
	}
	return f
}

func (s *Store) sees(ctx context.Context) bool {
	conn, back, err := s.connect(ctx, false)
	if err != nil {
		return false
	}
	defer back(nil)
	return s.client != nil && ofDriver(conn, s.client.Sees)
}

// examine implements [driver.Description].Examine. New has checked already that the tables exist.
func (s *Store) examine(ctx context.Context) []driver.Finding {
	if err := s.calls.Enter(); err != nil {
		return []driver.Finding{{About: "database", Risk: err.Error(), Advice: "open the store again"}}
	}
	defer s.calls.Leave()
	found := []driver.Finding{s.examineTables(ctx)}
	if s.d == &postgres {
		found = append(found, s.examineMessages(ctx), s.examinePrepared(ctx), s.examineWarnings(ctx))
	}
	for _, set := range slices.Concat(settings[s.d], required[s.d], shown[s.d]) {
		f := driver.Finding{About: set.name, Found: s.value(ctx, set.ask)}
		if f.Found != "" && set.risky(f.Found) {
			f.Risk, f.Advice = set.risk, set.fix()
		}
		found = append(found, f)
	}
	return found
}
