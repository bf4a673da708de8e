package dbtest

import (
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/store/sqlstore"
)

// TestSignOfLifeWaitsForNoRow: a transaction that takes its time with one waiter does not cost the
// others of that process their places.
func TestSignOfLifeWaitsForNoRow(t *testing.T) {
	servertest.Long(t)
	d := onPostgres(t)
	const lease = 4 * time.Second // a busy machine is not late with all signs of life
	s := open(t, d.Open(t), sqlstore.Postgres, sqlstore.WithWaiterLease(lease))
	b := open(t, d.Open(t), sqlstore.Postgres)
	_, _, slow := held(t, s, b, "a")
	_, _, other := held(t, s, b, "b")
	tx, err := d.Open(t).Begin()
	must(t, err)
	defer tx.Rollback()
	_, err = tx.Exec("SELECT 1 FROM keyturn_member WHERE owner = $1 FOR UPDATE", slow)
	must(t, err)
	for end := time.Now().Add(lease * 3 / 2); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		info, err := s.Inspect(t.Context(), "b")
		must(t, err)
		if len(info.Waiters) != 1 || info.Waiters[0].Owner != other {
			t.Fatalf("the queue is %+v", info.Waiters)
		}
	}
}
