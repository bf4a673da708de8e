package dbtest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/internal/sqltest"
	"github.com/keyturn/keyturn/internal/storetest"
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
	s := open(t, d.OpenAt(t, network.Addr(), "autocommit=0"), sqlstore.MySQL)
	network.Heal()
	if _, err := s.Acquire(t.Context(), request("k", time.Minute)); !errors.Is(err, sqlstore.ErrSettings) {
		t.Errorf("Acquire: %v", err)
	}
}

func refusesSetting(t *testing.T, d *sqltest.Database, parameter, name string) {
	t.Helper()
	_, err := sqlstore.New(t.Context(), d.OpenAt(t, d.Server.Addr(), parameter), dialectOf(d), silent)
	check(t, errors.Is(err, sqlstore.ErrSettings) && strings.Contains(err.Error(), name), "%s: %v", parameter, err)
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
	req := storetest.RequestFor(2*time.Second, driver.Permit("tu", 2)) // nobody releases it
	f := new(sqltest.Faults)
	s := open(t, f.Open(t, d, "&standard_conforming_strings=off"), sqlstore.Postgres)
	read, onward := f.HoldBack(isLoad)
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
		storetest.IsHeld(t, s, request("k", time.Minute)) // by another process
		must(t, other.Release(t.Context(), g))
	})
}

// openAs opens the database as a new user, who may do what it is granted.
func openAs(t *testing.T, d *sqltest.Database, user string) (db *sql.DB, grant func(what string, tables ...string)) {
	t.Helper()
	admin := d.Open(t)
	exec(t, admin, "CREATE USER "+user)
	t.Cleanup(func() { // the context of the test has ended
		_, owned := admin.Exec(by(d, "DROP OWNED BY "+user, "DO 0"))
		_, err := admin.Exec("DROP USER " + user)
		must(t, errors.Join(owned, err))
	})
	db, err := sql.Open(d.Driver, strings.Replace(d.DSN(), by(d, "keyturn@", "root@"), user+"@", 1))
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db, func(what string, tables ...string) {
		for _, table := range tables {
			exec(t, admin, "GRANT "+what+" ON keyturn_"+table+" TO "+user)
		}
	}
}

// PostgreSQL's error names the table that the user may not write, and not the user.
func TestAMissingPermissionNamesUserAndTable(t *testing.T) {
	withServers(t, func(t *testing.T, d *sqltest.Database) {
		db, grant := openAs(t, d, "looker")
		grant("SELECT", tables...)
		s := open(t, db, dialectOf(d))
		for _, req := range []driver.Request{request("k", time.Minute), request("a", time.Minute, driver.Exclusive("b"))} {
			_, err := s.Acquire(t.Context(), req)
			storetest.IsRefused(t, err, "looker", "keyturn_lock")
		}
	})
}

// Only an exclusive lock that nobody waits for needs no DELETE, as docs/operations-sql.md says.
func TestWithoutDELETE(t *testing.T) {
	withServers(t, func(t *testing.T, d *sqltest.Database) {
		db, grant := openAs(t, d, "keeper")
		grant("SELECT, INSERT, UPDATE", tables...)
		s := open(t, db, dialectOf(d))
		use(t, s, "k")
		g := take(t, s, storetest.RequestFor(time.Minute, driver.Shared("s")))
		storetest.IsRefused(t, s.Release(t.Context(), g), "keeper", "keyturn_member")

		g = take(t, s, request("q", time.Minute))
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		waits := request("q", time.Minute)
		waits.Wait = true
		_, err := s.Acquire(ctx, waits)
		storetest.IsRefused(t, err, "keeper", "keyturn_member")
		storetest.IsRefused(t, s.Release(t.Context(), g), "keeper", "keyturn_member") // it would take the waiter out of the queue
		storetest.IsRefused(t, s.Sweep(t.Context(), 0), "keeper", "keyturn_")
	})
}
