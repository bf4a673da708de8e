package dbtest

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	keyturn "github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/internal/sqltest"
	"github.com/keyturn/keyturn/store/sqlstore"
)

// manyRows is how many rows each table has in TestNoStatementScans.
const manyRows = 100_000

// TestNoStatementScans: with many rows in each table, the database looks every row up by an index, in
// each statement that the store sends. On MariaDB the renewal of one lease read and locked all of them.
func TestNoStatementScans(t *testing.T) {
	servertest.Long(t)
	onEach(t, func(t *testing.T, d *sqltest.Database) {
		fillTables(t, d)
		f := new(sqltest.Faults)
		db := f.Open(t, d)
		s := open(t, db, dialectOf(d), quick...)
		f.Record(true)
		useEverything(t, s)
		f.Record(false)
		_ = s.Close()
		explained, looker := 0, d.Open(t)
		for query, args := range f.Sent() {
			if plan := explain(t, looker, d.Kind, query, args); plan != "" {
				explained++
				check(t, !scans[d.Kind].MatchString(plan), "%s\n%s", query, plan)
			}
		}
		check(t, explained >= 20, "only %d statements", explained)
	})
}

// scans are how plans say that all of a table is read.
var scans = map[string]*regexp.Regexp{
	"postgres": regexp.MustCompile(`Seq Scan on keyturn_`),
	"mysql":    regexp.MustCompile(`(?m)^[^I]\S+ (l|m|r|k|keyturn_\w+) (ALL|index) `), // INSERT always says ALL
	"sqlite":   regexp.MustCompile(`SCAN (l|m|k|keyturn_\w+)\b`),
}

// fillTables fills all tables with rows that nobody uses, and that are not over.
func fillTables(t *testing.T, d *sqltest.Database) {
	t.Helper()
	numbers, key, owner := "generate_series(1, %d) n", "('n' || n)::bytea", "('o' || n)"
	switch d.Kind {
	case "mysql":
		numbers, key, owner = "(SELECT seq AS n FROM seq_1_to_%d) n", "concat('n', n)", "concat('o', n)"
	case "sqlite":
		numbers, key = "(WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < %d) SELECT n FROM c)", "CAST('n' || n AS BLOB)"
	}
	from := fmt.Sprintf(" FROM "+numbers, manyRows)
	const late = "4000000000000000"
	db := d.Open(t)
	for table, columns := range map[string][2]string{
		"lock":    {"lock_key, owner, last", key + ", '', " + late},
		"member":  {"lock_key, owner, waits, mode, permits, nr, until", key + ", " + owner + ", 1, 0, 0, n, " + late},
		"record":  {"lock_key, owner, until, not_kept", key + ", " + owner + ", " + late + ", 0"},
		"forced":  {"lock_key, owner, token, until", key + ", " + owner + ", n, " + late},
		"version": {"lock_key, version, until", key + ", n, " + late},
	} {
		exec(t, db, "INSERT INTO keyturn_"+table+" ("+columns[0]+") SELECT "+columns[1]+from)
		switch d.Kind {
		case "mysql":
			exec(t, db, "ANALYZE TABLE keyturn_"+table)
		default:
			exec(t, db, "ANALYZE keyturn_"+table)
		}
	}
}

// useEverything has s send each of its statements.
func useEverything(t *testing.T, s *sqlstore.Store) {
	t.Helper()
	ctx := t.Context()
	acquire := func(key string, more ...keyturn.Claim) keyturn.Grant {
		return take(t, s, request(key, time.Minute, more...))
	}
	one := acquire("n7") // a row that is there
	many := []keyturn.Grant{one, acquire("new")}
	for i := range 20 {
		many = append(many, acquire(fmt.Sprint("n1", i)))
	}
	for _, batch := range [][]keyturn.Grant{{one}, many, {one, acquire("s1", keyturn.Shared("s2"))}} {
		for _, err := range s.Renew(ctx, batch) {
			must(t, err)
		}
	}
	lost := one
	lost.Token++
	_ = s.Renew(ctx, []keyturn.Grant{lost}) // it asks why
	_, _ = s.Acquire(ctx, request("n7", time.Minute))
	must(t, s.Downgrade(ctx, keyturn.Grant{Owner: one.Owner, Token: one.Token, TTL: one.TTL, Claims: []keyturn.Claim{keyturn.Shared("n7")}}))
	brief, cancel := context.WithTimeout(ctx, time.Second) // it looks, and gives signs of life
	defer cancel()
	waiter := request("n7", time.Minute)
	waiter.Wait = true
	_, _ = s.Acquire(brief, waiter)
	must(t, checktest.ErrorOf(s.ForceRelease(ctx, "n7", "a reason")))
	begin := func(key string) keyturn.Grant {
		g, _, err := s.Begin(ctx, request(key, time.Minute))
		must(t, err)
		return g
	}
	begin("done")
	must(t, s.Complete(ctx, begin("n8"), keyturn.Record{Result: []byte("x")}, time.Minute))
	begin("n8")
	must(t, checktest.ErrorOf(s.Forget(ctx, "n8")))
	must(t, checktest.ErrorOf(s.AdvanceVersion(ctx, "v", 3, time.Minute)))
	must(t, checktest.ErrorOf(s.Inspect(ctx, "n9")))
	for _, records := range []bool{false, true} {
		q := keyturn.Listing{Prefix: "n1", Limit: 10, Records: records}
		for first := true; first || q.Cursor != ""; first = false {
			var err error
			_, q.Cursor, err = s.List(ctx, q)
			must(t, err)
		}
	}
	var all sync.WaitGroup
	for i := range 40 { // some of them together
		all.Go(func() {
			if g, err := s.Acquire(ctx, request(fmt.Sprint("n2", i), time.Minute)); err != nil || s.Release(ctx, g) != nil {
				t.Errorf("%+v, %v", g, err)
			}
		})
	}
	all.Wait()
	for _, g := range many[1:] {
		must(t, s.Release(ctx, g))
	}
	must(t, s.Sweep(ctx, 0))
}

// block is what stands around a statement of a block, or of a session.
var block = regexp.MustCompile(`(?s)^/\*M!\d+ .*? \*/ |^BEGIN NOT ATOMIC .*; (SELECT)|; END$`)

// explain returns the plan of a statement; "": it has none.
func explain(t *testing.T, db *sql.DB, kind, query string, args []any) string {
	t.Helper()
	query = block.ReplaceAllString(query, "$1")
	if kind == "postgres" { // what leaves together with BEGIN
		parts := strings.Split(query, "; ")
		query = parts[len(parts)-1]
	}
	if !slices.Contains([]string{"SELECT", "WITH", "INSERT", "UPDATE", "DELETE"}, strings.ToUpper(strings.Fields(query)[0])) || !strings.Contains(query, "keyturn_") {
		return ""
	}
	prefix := map[string]string{"postgres": "EXPLAIN ", "mysql": "EXPLAIN ", "sqlite": "EXPLAIN QUERY PLAN "}[kind]
	rows, err := db.QueryContext(t.Context(), prefix+query, args...)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	must(t, err)
	var plan strings.Builder
	for rows.Next() {
		values, to := make([]sql.NullString, len(columns)), make([]any, len(columns))
		for i := range values {
			to[i] = &values[i]
		}
		must(t, rows.Scan(to...))
		for i, v := range values {
			if kind == "mysql" && i == 0 { // the number of the SELECT: the table follows its type
				continue
			}
			plan.WriteString(v.String + " ")
		}
		plan.WriteString("\n")
	}
	must(t, rows.Err())
	return plan.String() + " "
}
