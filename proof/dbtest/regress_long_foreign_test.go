package dbtest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/drivertest"
	"github.com/keyturn/keyturn/internal/sqltest"
	"github.com/keyturn/keyturn/store/sqlstore"
)

// Somebody has written a megabyte into a row, which went as a whole into each conflict, list and log.
func TestALongForeignValueIsShortened(t *testing.T) {
	t.Parallel()
	for _, dialect := range []sqlstore.Dialect{sqlstore.Postgres, sqlstore.SQLite} { // MariaDB's columns are as long as what belongs there
		t.Run(fmt.Sprint(dialect), func(t *testing.T) {
			t.Parallel()
			d := sqltest.SQLite(t)
			if dialect == sqlstore.Postgres {
				d = sqltest.Postgres(t)
			}
			migrate(t, d)
			db := d.Open(t)
			s := open(t, db, dialect)
			for _, k := range []string{"k", "other"} {
				req := request(k, time.Minute)
				if _, err := s.Acquire(t.Context(), req); err != nil {
					t.Fatal(err)
				}
			}
			long := strings.Repeat("é", 1<<19)
			if _, err := db.Exec("UPDATE keyturn_lock SET owner = $1, rule = $2, trace = $2", long, []byte(long)); err != nil {
				t.Fatal(err)
			}
			drivertest.Shortened(t, s, "k", "other")
		})
	}
}
