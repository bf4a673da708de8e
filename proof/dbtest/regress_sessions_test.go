package dbtest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/internal/sqltest"
	"github.com/keyturn/keyturn/store/sqlstore"
)

// Under these settings of a session, two owners held a key, or every request failed. They are refused at
// the start, by name.
func TestSettingsThatBreakAPromiseAreRefused(t *testing.T) {
	t.Parallel()
	d := sqltest.MySQL(t)
	migrate(t, d)
	for _, setting := range strings.Fields("autocommit=0 sql_select_limit=1 sql_mode='EMPTY_STRING_IS_NULL' sql_mode=ORACLE") {
		name, _, _ := strings.Cut(setting, "=")
		refusesSetting(t, d, setting, name)
	}
	// A store whose database was away at the start looks before its first request.
	network := servertest.NewProxy(t, d.Server.Addr())
	network.Cut()
	s := open(t, d.OpenWith(t, network.Addr(), "autocommit=0"), sqlstore.MySQL)
	network.Heal()
	if _, err := s.Acquire(t.Context(), request("k", time.Minute)); !errors.Is(err, sqlstore.ErrSettings) {
		t.Errorf("Acquire: %v", err)
	}
}

func refusesSetting(t *testing.T, d *sqltest.Database, parameter, name string) {
	t.Helper()
	_, err := sqlstore.New(t.Context(), d.OpenWith(t, d.Server.Addr(), parameter), dialectOf(d), silent)
	if !errors.Is(err, sqlstore.ErrSettings) || !strings.Contains(err.Error(), name) {
		t.Errorf("%s: %v", parameter, err)
	}
}

func TestStatementsInTheLogAreRefused(t *testing.T) {
	t.Parallel()
	servertest.Long(t)
	d := sqltest.StartMySQL(t, "log-bin", "binlog-format=STATEMENT", "sync-binlog=1").Database(t)
	migrate(t, d)
	refusesSetting(t, d, "timeout=5s", "binlog_format")
}

// Settings that change nothing: the store depends on none of them.
func TestSettingsThatDoNotMatter(t *testing.T) {
	withServers(t, func(t *testing.T, d *sqltest.Database) {
		for _, settings := range strings.Fields(by(d,
			"standard_conforming_strings=off&timezone=Asia/Kolkata&bytea_output=escape&lock_timeout=20&idle_in_transaction_session_timeout=100"+
				"&statement_timeout=9000&datestyle=German&plan_cache_mode=force_generic_plan",
			"time_zone='%2b05:30'&sql_mode=''&sql_safe_updates=1&innodb_lock_wait_timeout=1&tx_isolation='READ-UNCOMMITTED' "+
				"sql_mode='ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT'&max_statement_time=9&wait_timeout=3")) {
			takeTurns(t, openStores(t, d, 2, settings), 3, 3)
		}
	})
}

// The literal of one key was taken for another key, whose row was locked in its place.
func TestBackslashesInLiterals(t *testing.T) {
	servertest.Long(t)
	d := onPostgres(t)
	stores := openStores(t, d, 2, "standard_conforming_strings=off")
	use(t, stores[0], "t75", "tu") // '\x7475' is t75 then
	free := lockRows(t, d, "tu")
	defer free()
	req := request("tu", 2*time.Second) // nobody releases it
	req.Claims = []driver.Claim{driver.Permit("tu", 2)}
	f := new(faulty)
	s := open(t, f.open(t, d, "&standard_conforming_strings=off"), sqlstore.Postgres)
	read, onward := f.holdBack(isLoad)
	onward()
	go func() { _, _ = s.Acquire(t.Context(), req) }()
	select {
	case <-read:
		t.Error("the store does not wait for the row of its key")
	case <-time.After(500 * time.Millisecond):
	}
	free()
	takeTurns(t, stores, 4, 10) // of "tu", too
}

// A program changes where a connection of its pool looks for tables. The store goes on with its own.
func TestTablesStayWhereTheyWere(t *testing.T) {
	withServers(t, func(t *testing.T, d *sqltest.Database) {
		db := d.Open(t)
		db.SetMaxOpenConns(1)
		s, other := open(t, db, dialectOf(d)), open(t, d.Open(t), dialectOf(d))
		g := take(t, other, request("k", time.Minute))
		elsewhere := fmt.Sprintf("elsewhere_%d", time.Now().UnixNano()) // a database of its own on MariaDB
		exec(t, db, "CREATE SCHEMA "+elsewhere)
		defer exec(t, db, "DROP SCHEMA "+elsewhere+by(d, " CASCADE", ""))
		exec(t, db, by(d, "SET search_path = ", "USE ")+elsewhere)
		must(t, sqlstore.Migrate(t.Context(), db, dialectOf(d)))
		if _, err := s.Acquire(t.Context(), request("k", time.Minute)); !errors.Is(err, driver.ErrHeld) {
			t.Errorf("a key that another process holds: %v", err)
		}
		must(t, other.Release(t.Context(), g))
	})
}
