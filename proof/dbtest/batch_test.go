package dbtest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/internal/sqltest"
	"github.com/keyturn/keyturn/store/sqlstore"
)

// crowd is a store whose callers can't send their requests alone, so they leave in batches: three others
// wait for rows that a foreign transaction has locked.
type crowd struct {
	*sqlstore.Store
	other   *sqlstore.Store
	faults  *sqltest.Faults
	db      *sql.DB
	foreign *sql.Tx
	alone   chan error // the results of the three
}

// alone is how many callers send their own requests at most.
const alone = 3

// newCrowd makes one that may use that many connections more.
func newCrowd(t *testing.T, more int) *crowd {
	t.Helper()
	d := onPostgres(t)
	c := &crowd{faults: new(sqltest.Faults), alone: make(chan error, alone)}
	c.Store = open(t, c.faults.Open(t, d), sqlstore.Postgres, sqlstore.WithMaxConns(alone+more))
	c.db = d.Open(t)
	c.other = open(t, c.db, sqlstore.Postgres)
	use(t, c.other, "locked", "busy0", "busy1", "busy2") // makes the rows
	var err error
	c.foreign, err = c.db.Begin()
	must(t, err)
	t.Cleanup(func() { _ = c.foreign.Rollback() })
	exec(t, c.foreign, "UPDATE keyturn_lock SET through = 0")
	for i := range alone {
		go func() { c.alone <- c.insist(t.Context(), fmt.Sprint("busy", i)) }()
	}
	awaitBlocked(t, d, alone)
	return c
}

// insist takes a key. A statement waits for a row for 5 s, and a slow machine may take longer.
func (c *crowd) insist(ctx context.Context, key string) error {
	for {
		if _, err := c.Acquire(ctx, request(key, time.Minute)); !errors.Is(err, driver.ErrUnavailable) || ctx.Err() != nil {
			return err
		}
	}
}

// done ends the foreign transaction. Those who have waited for it are served then.
func (c *crowd) done(t *testing.T) {
	t.Helper()
	_ = c.foreign.Rollback()
	for range alone {
		err := <-c.alone
		check(t, err == nil, "waited for a row: %v", err)
	}
}

// isBatch tells the statement for several requests.
func isBatch(query string) bool { return strings.Contains(query, "unnest(") }

// each calls do for n keys at a time, and collects the errors.
func each(n int, do func(i int, key string) error) error {
	errs := make(chan error, n)
	for i := range n {
		go func() { errs <- do(i, fmt.Sprint("key", i)) }()
	}
	var err error
	for range n {
		err = errors.Join(err, <-errs)
	}
	return err
}

// takes has a caller for each of n keys take it, and gives all of them back in the same way. do calls them, and
// returns when all have been answered. Then exactly what they say is held.
func (c *crowd) takes(t *testing.T, n int, do func(call func(i int, key string) error)) {
	t.Helper()
	grants := make([]driver.Grant, n)
	do(func(i int, key string) (err error) {
		grants[i], err = c.Acquire(t.Context(), request(key, time.Minute))
		return err
	})
	for i, g := range grants {
		info, err := c.other.Inspect(t.Context(), fmt.Sprint("key", i))
		must(t, err)
		check(t, len(info.Holders) == 1 && info.Holders[0].Owner == g.Owner && info.Holders[0].Token == g.Token, "key %d has the holders %+v instead of %+v", i, info.Holders, g)
	}
	do(func(i int, _ string) error { return c.Release(t.Context(), grants[i]) })
	for i := range n {
		if info, err := c.other.Inspect(t.Context(), fmt.Sprint("key", i)); err != nil || len(info.Holders) > 0 {
			t.Errorf("key %d is held by %+v, %v", i, info.Holders, err)
		}
	}
}

// TestRequestsLeaveInBatches: few statements take many keys, and release them. A row that somebody else
// has locked holds up only the request that is about it.
func TestRequestsLeaveInBatches(t *testing.T) {
	c := newCrowd(t, 3)
	const n = 40
	c.faults.BreakAt(0, false) // from now on they are counted
	holding, onward := c.faults.HoldBack(isBatch)
	first := checktest.Async(func() error { return c.insist(t.Context(), "first") })
	<-holding // the others gather
	waits := checktest.Async(func() error { return c.insist(t.Context(), "locked") })
	time.AfterFunc(20*time.Millisecond, onward)
	c.takes(t, n, func(call func(int, string) error) { must(t, each(n, call)) })
	sent := c.faults.Statements()
	check(t, sent <= n, "%d requests took %d statements", 2*n, sent)
	must(t, <-first)
	select {
	case err := <-waits:
		t.Errorf("did not wait for its row: %v", err)
	default:
	}
	c.done(t)
	must(t, <-waits)
}

// TestABatchBehindAnInsert: a foreign session has inserted the row of a key, and does not commit. The other requests of the
// batch wait for it for a second at most.
func TestABatchBehindAnInsert(t *testing.T) {
	c := newCrowd(t, 3)
	use(t, c.other, "key1", "key2", "key3") // key0 has no row
	exec(t, c.foreign, "INSERT INTO keyturn_lock (lock_key, owner) VALUES ('key0', '')")
	holding, onward := c.faults.HoldBack(isBatch)
	first := checktest.Async(func() error { return c.insist(t.Context(), "first") })
	<-holding // the others gather
	time.AfterFunc(20*time.Millisecond, onward)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	must(t, each(4, func(i int, key string) error {
		err := checktest.ErrorOf(c.Acquire(ctx, request(key, time.Minute)))
		if i == 0 && errors.Is(err, driver.ErrUnavailable) {
			return nil
		}
		return err
	}))
	must(t, <-first)
	c.done(t)
}

// TestBatchForOneKey: of the requests for a key that leave as a batch, one gets it, and a record that
// is there is found.
func TestBatchForOneKey(t *testing.T) {
	c := newCrowd(t, 3)
	req := request("key0", time.Minute)
	g, _, err := c.other.Begin(t.Context(), req)
	must(t, err)
	must(t, c.other.Complete(t.Context(), g, driver.Record{Result: []byte("done")}, time.Minute))
	holding, onward := c.faults.HoldBack(isBatch)
	var got atomic.Int64
	one := checktest.Async(func() error {
		return each(10, func(int, string) error {
			_, err := c.Acquire(t.Context(), request("one", time.Minute))
			if err == nil {
				got.Add(1)
			} else if errors.Is(err, driver.ErrHeld) {
				err = nil
			}
			return err
		})
	})
	<-holding
	time.AfterFunc(20*time.Millisecond, onward)
	must(t, each(5, func(i int, key string) error {
		g, rec, err := c.Begin(t.Context(), request(key, time.Minute))
		if err == nil && (rec != nil) != (i == 0) {
			err = fmt.Errorf("%s: the record %+v, the grant %+v", key, rec, g)
		}
		return err
	}))
	must(t, <-one)
	n := got.Load()
	check(t, n == 1, "%d requests got one key", n)
	c.done(t)
}

// TestLostAnswersOfABatch breaks the connection before the statement for several requests arrives, and
// after it was carried out.
func TestLostAnswersOfABatch(t *testing.T) {
	c := newCrowd(t, 3)
	const n = 10
	for _, after := range []bool{false, true} {
		c.takes(t, n, func(call func(int, string) error) {
			c.faults.BreakAt(1, after)
			if err := each(n, call); err != nil || !isBatch(c.faults.Broken()) {
				t.Fatalf("broken at %q (after it: %v): %v", c.faults.Broken(), after, err)
			}
		})
	}
	c.done(t)
}

// TestGivingUpInABatch: callers whose statement is late leave when their contexts end. What it has taken
// for them is given back.
func TestGivingUpInABatch(t *testing.T) {
	c := newCrowd(t, 3)
	const n = 5
	ctx, cancel := context.WithCancel(t.Context())
	holding, onward := c.faults.HoldBack(isBatch)
	gone := checktest.Async(func() error { return each(n, c.givesUp(ctx)) })
	<-holding
	cancel()
	must(t, <-gone)
	onward()
	c.carriedOut(t)
	for i := range n {
		c.comesFree(t, fmt.Sprint("key", i))
	}
	c.done(t)
}

// TestGivingUpAfterALostAnswer: the statement for several requests had no answer. A caller whose context
// ends before a connection is free to find out may hold the key, which is given back.
func TestGivingUpAfterALostAnswer(t *testing.T) {
	servertest.Long(t)
	c := newCrowd(t, 1)
	c.faults.BreakAt(2, true)
	holding, onward := c.faults.HoldBack(isBatch)
	first := checktest.Async(func() error { return c.insist(t.Context(), "first") })
	<-holding
	begins, andOn := c.faults.HoldBackAll(func(query string) bool { return strings.HasPrefix(query, "BEGIN") })
	defer andOn()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	gone := checktest.Async(func() error { return each(2, c.givesUp(ctx)) })
	time.AfterFunc(300*time.Millisecond, onward) // until then, both have come
	<-begins                                     // one of them; the other waits for a connection, or follows
	c.carriedOut(t)
	cancel()
	must(t, <-gone)
	andOn()
	for i := range 2 {
		c.comesFree(t, fmt.Sprint("key", i))
	}
	must(t, <-first)
	c.done(t)
}

// givesUp asks for a key, which must end with the context.
func (c *crowd) givesUp(ctx context.Context) func(int, string) error {
	return func(_ int, key string) error {
		if _, err := c.Acquire(ctx, request(key, time.Hour)); !errors.Is(err, driver.ErrUnavailable) {
			return fmt.Errorf("%s: %v", key, err)
		}
		return nil
	}
}

// carriedOut waits until one of the keys has a row.
func (c *crowd) carriedOut(t *testing.T) {
	t.Helper()
	checktest.Eventually(t, "a key was taken", func() bool {
		var rows int
		must(t, c.db.QueryRow("SELECT count(*) FROM keyturn_lock WHERE lock_key >= 'key0'::bytea AND lock_key <= 'key9'::bytea").Scan(&rows))
		return rows > 0
	})
}

// comesFree waits until a key is free.
func (c *crowd) comesFree(t *testing.T, key string) {
	t.Helper()
	req := request(key, time.Minute)
	req.Wait = true
	take(t, c.other, req)
}
