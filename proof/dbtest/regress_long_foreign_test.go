package dbtest

import (
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/drivertest"
	"github.com/keyturn/keyturn/internal/sqltest"
)

// Somebody has written a megabyte into a row, which went as a whole into each conflict, list and log.
func TestALongForeignValueIsShortened(t *testing.T) {
	on(t, func(t *testing.T, d *sqltest.Database) {
		db := d.Open(t)
		s := open(t, db, dialectOf(d))
		take(t, s, request("k", time.Minute))
		take(t, s, request("other", time.Minute))
		long := strings.Repeat("é", 1<<19)
		_, err := db.Exec("UPDATE keyturn_lock SET owner = $1, rule = $2, trace = $2", long, []byte(long))
		must(t, err)
		drivertest.Shortened(t, s, "k", "other")
	}, "postgres", "sqlite") // MariaDB's columns are as long as what belongs there
}
