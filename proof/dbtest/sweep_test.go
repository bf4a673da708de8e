package dbtest

import (
	"database/sql"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// TestSweepDeletesWhatIsOver and nothing else. The next token is greater all the same.
func TestSweepDeletesWhatIsOver(t *testing.T) {
	for name, dialect := range dialects {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := dialect.database(t)
			migrate(t, d)
			db := d.Open(t)
			s := open(t, db, dialect.Dialect)
			acquire := func(ttl time.Duration, c driver.Claim) driver.Grant {
				t.Helper()
				req := request(c.Key, ttl)
				req.Claims = []driver.Claim{c}
				g, err := s.Acquire(t.Context(), req)
				if err != nil {
					t.Fatal(err)
				}
				return g
			}
			const short = 100 * time.Millisecond
			old := acquire(short, driver.Exclusive("over"))
			acquire(short, driver.Shared("read"))
			done := acquire(time.Minute, driver.Exclusive("done"))
			if err := s.Complete(t.Context(), done, driver.Record{}, short); err != nil {
				t.Fatal(err)
			}
			if _, err := s.AdvanceVersion(t.Context(), "version", 1, short); err != nil {
				t.Fatal(err)
			}
			kept := []driver.Grant{acquire(time.Minute, driver.Exclusive("held")), acquire(time.Minute, driver.Shared("shared"))}
			time.Sleep(2 * short)
			if err := s.Sweep(t.Context(), time.Hour); err != nil {
				t.Fatal(err)
			}
			if n := rowsIn(t, db, "lock"); n != 5 {
				t.Errorf("%d locks are left although none is that old", n)
			}
			if err := s.Sweep(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			for table, want := range map[string]int{"lock": 2, "member": 1, "record": 0, "version": 0} {
				if n := rowsIn(t, db, table); n != want {
					t.Errorf("%d rows of %s are left, want %d", n, table, want)
				}
			}
			for i, err := range s.Renew(t.Context(), kept) {
				if err != nil {
					t.Errorf("the lease on %s: %v", kept[i].Claims[0].Key, err)
				}
			}
			if g := acquire(time.Minute, driver.Exclusive("over")); g.Token <= old.Token {
				t.Errorf("token %d after %d", g.Token, old.Token)
			}
		})
	}
}

func rowsIn(t *testing.T, db *sql.DB, table string) (n int) {
	t.Helper()
	if err := db.QueryRow("SELECT count(*) FROM keyturn_" + table).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
