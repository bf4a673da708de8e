package dbtest

import (
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/sqltest"
	"github.com/keyturn/keyturn/store/sqlstore"
)

// TestSignOfLifeWaitsForNoRow: a transaction that takes its time with one waiter does not cost the
// others of that process their places.
func TestSignOfLifeWaitsForNoRow(t *testing.T) {
	t.Parallel()
	d := sqltest.Postgres(t)
	migrate(t, d)
	const lease = 4 * time.Second // a busy machine is not late with all signs of life
	s := open(t, d.Open(t), sqlstore.Postgres, sqlstore.WithWaiterLease(lease))
	wait := func(key string) driver.Request {
		t.Helper()
		if _, err := s.Acquire(t.Context(), request(key, time.Minute)); err != nil {
			t.Fatal(err)
		}
		queued := make(chan struct{}, 10)
		req := request(key, time.Minute)
		req.Wait, req.OnHeld = true, func(driver.HeldError) { queued <- struct{}{} }
		go func() { _, _ = s.Acquire(t.Context(), req) }() // until the test ends
		<-queued
		return req
	}
	slow, other := wait("a"), wait("b")
	tx, err := d.Open(t).Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.Exec("SELECT 1 FROM keyturn_member WHERE owner = $1 FOR UPDATE", slow.Owner); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(lease * 3 / 2); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		info, err := s.Inspect(t.Context(), "b")
		if err != nil {
			t.Fatal(err)
		}
		if len(info.Waiters) != 1 || info.Waiters[0].Owner != other.Owner {
			t.Fatalf("the queue is %+v", info.Waiters)
		}
	}
}
