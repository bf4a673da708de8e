package dbtest

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/drivertest"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/sqltest"
	"github.com/keyturn/keyturn/internal/storetest"
)

// TestHostileTexts: whatever a key, a rule or a record contains, it is data. On MySQL it becomes a
// part of the statement.
func TestHostileTexts(t *testing.T) {
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	onEach(t, func(t *testing.T, d *sqltest.Database) {
		s := open(t, d.Open(t), dialectOf(d))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		// A rule's name is longer than the column that MariaDB has for it.
		l := lease(t, engineOn(t, s), "long", core.WithRule(strings.Repeat("é", driver.MaxNoteBytes)+"!"))
		must(t, l.Release(t.Context()))
		for _, text := range []string{`'; DROP TABLE keyturn_lock; --`, `\'"?$1`, "ключ·鍵", "_ascii x'00'"} {
			req := request(text, time.Minute)
			req.Rule, req.Trace = text, text
			g, _, err := s.Begin(ctx, req)
			if err != nil {
				t.Fatalf("%q: %v", text, err)
			}
			info, err := s.Inspect(ctx, text)
			check(t, err == nil && len(info.Holders) == 1 && info.Holders[0].Rule == text && info.Holders[0].Trace == text, "%q: %+v, %v", text, info, err)
			for _, result := range [][]byte{every, bytes.Repeat(every, 1000), {}} {
				rec := driver.Record{Fingerprint: every[:200], Result: result}
				if err := s.Complete(ctx, g, rec, time.Minute); err != nil {
					t.Fatalf("%q: %v", text, err)
				}
				_, got, err := s.Begin(ctx, request(text, time.Minute))
				check(t, err == nil && got != nil && bytes.Equal(got.Result, result) && bytes.Equal(got.Fingerprint, rec.Fingerprint), "%q: the record of %d bytes is %+v, %v", text, len(result), got, err)
				must(t, checktest.ErrorOf(s.Forget(ctx, text)))
				if g, _, err = s.Begin(ctx, request(text, time.Minute)); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// Somebody has written a megabyte into a row, which went as a whole into each conflict, list and log.
func TestALongForeignValueIsShortened(t *testing.T) {
	on(t, func(t *testing.T, d *sqltest.Database) {
		db := d.Open(t)
		s := open(t, db, dialectOf(d))
		take(t, s, request("k", time.Minute))
		take(t, s, request("other", time.Minute))
		long := strings.Repeat("é", 1<<19)
		must(t, checktest.ErrorOf(db.Exec("UPDATE keyturn_lock SET owner = $1, rule = $2, trace = $2", long, []byte(long))))
		drivertest.Shortened(t, s, "k", "other")
	}, "postgres", "sqlite") // MariaDB's columns are as long as what belongs there
}

// TestSweepDeletesWhatIsOver and nothing else. The next token is greater all the same.
func TestSweepDeletesWhatIsOver(t *testing.T) {
	onEach(t, func(t *testing.T, d *sqltest.Database) {
		db := d.Open(t)
		s := open(t, db, dialectOf(d))
		acquire := func(ttl time.Duration, c driver.Claim) driver.Grant {
			t.Helper()
			return take(t, s, storetest.RequestFor(ttl, c))
		}
		const short = 100 * time.Millisecond
		old := acquire(short, driver.Exclusive("over"))
		acquire(short, driver.Shared("read"))
		for key, retention := range map[string]time.Duration{"done": short, "on record": time.Minute} {
			must(t, s.Complete(t.Context(), acquire(time.Minute, driver.Exclusive(key)), driver.Record{}, retention))
			must(t, checktest.ErrorOf(s.AdvanceVersion(t.Context(), key, 1, retention)))
		}
		kept := []driver.Grant{acquire(time.Minute, driver.Exclusive("held")), acquire(time.Minute, driver.Shared("shared"))}
		time.Sleep(2 * short)
		must(t, errors.Join(s.Sweep(t.Context(), time.Hour), s.Sweep(t.Context(), math.MaxInt64)))
		if n := rowsIn(t, db, "lock"); n != 6 {
			t.Errorf("%d locks are left although none is that old", n)
		}
		must(t, s.Sweep(t.Context(), 0))
		for table, want := range map[string]int{"lock": 3, "member": 1, "record": 1, "version": 1} {
			if n := rowsIn(t, db, table); n != want {
				t.Errorf("%d rows of %s are left, want %d", n, table, want)
			}
		}
		for i, err := range s.Renew(t.Context(), kept) {
			check(t, err == nil, "the lease on %s: %v", kept[i].Claims[0].Key, err)
		}
		g := acquire(time.Minute, driver.Exclusive("over"))
		check(t, g.Token > old.Token, "token %d after %d", g.Token, old.Token)
	})
}

// A process that lived for seconds swept nothing, so a fleet of such processes left all its rows.
func TestAShortLifeSweeps(t *testing.T) {
	onEach(t, func(t *testing.T, d *sqltest.Database) {
		db := d.Open(t)
		s := open(t, db, dialectOf(d))
		for i := range 20 {
			key := fmt.Sprint("k", i) // before and behind the next key
			must(t, s.Complete(t.Context(), take(t, s, request(key, time.Minute)), driver.Record{}, time.Minute))
			must(t, checktest.ErrorOf(s.AdvanceVersion(t.Context(), key, 1, time.Minute)))
		}
		exec(t, db, "UPDATE keyturn_lock SET last = 1, record_until = 1")
		exec(t, db, "UPDATE keyturn_record SET until = 1 WHERE lock_key <> CAST('k12' AS "+map[string]string{"postgres": "bytea", "mysql": "binary(3)", "sqlite": "BLOB"}[d.Kind]+")")
		exec(t, db, "UPDATE keyturn_version SET until = 1")
		take(t, open(t, db, dialectOf(d)), request("k10", time.Minute))
		left := func() [3]int {
			return [3]int{rowsIn(t, db, "lock"), rowsIn(t, db, "record"), rowsIn(t, db, "version")}
		}
		checktest.Eventually(t, "what is over has gone", func() bool { return left() == [3]int{1, 1, 0} })
	})
}

func rowsIn(t *testing.T, db *sql.DB, table string) (n int) {
	t.Helper()
	must(t, db.QueryRow("SELECT count(*) FROM keyturn_"+table).Scan(&n))
	return n
}

// TestOneUnreadableLease, which somebody has changed by hand. Its renewal fails alone, and a list shows the others.
func TestOneUnreadableLease(t *testing.T) {
	onEach(t, func(t *testing.T, d *sqltest.Database) {
		db := d.Open(t)
		s := open(t, db, dialectOf(d))
		grants := []driver.Grant{take(t, s, storetest.RequestFor(time.Minute, driver.Shared("a"))), take(t, s, storetest.RequestFor(time.Minute, driver.Shared("b")))}
		exec(t, db, "UPDATE keyturn_member SET token = -1 WHERE owner = '"+grants[0].Owner+"'")
		errs := s.Renew(t.Context(), grants)
		storetest.IsForeign(t, errs[0])
		must(t, errs[1])
		page, _, err := s.List(t.Context(), driver.Listing{})
		check(t, err == nil && len(page) == 1 && page[0].Key == "b", "the list is %+v, %v", page, err)
	})
}
