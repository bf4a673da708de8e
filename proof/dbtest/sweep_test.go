package dbtest

import (
	"database/sql"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/sqltest"
	"github.com/keyturn/keyturn/internal/storetest"
)

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
		done := acquire(time.Minute, driver.Exclusive("done"))
		must(t, s.Complete(t.Context(), done, driver.Record{}, short))
		must(t, storetest.ErrorOf(s.AdvanceVersion(t.Context(), "version", 1, short)))
		kept := []driver.Grant{acquire(time.Minute, driver.Exclusive("held")), acquire(time.Minute, driver.Shared("shared"))}
		time.Sleep(2 * short)
		must(t, s.Sweep(t.Context(), time.Hour))
		if n := rowsIn(t, db, "lock"); n != 5 {
			t.Errorf("%d locks are left although none is that old", n)
		}
		must(t, s.Sweep(t.Context(), 0))
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

func rowsIn(t *testing.T, db *sql.DB, table string) (n int) {
	t.Helper()
	must(t, db.QueryRow("SELECT count(*) FROM keyturn_"+table).Scan(&n))
	return n
}
