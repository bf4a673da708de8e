package fencetest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/keyturn/keyturn/fence"
)

// Behind a pgbouncer that gives a connection to each transaction, nothing of a session survives.
// pgx must not use prepared statements there.
func TestBehindPgbouncer(t *testing.T) {
	db := newDatabase(t, fence.Postgres, open(t, fence.Postgres), sql.LevelDefault)
	db.run(t, `CREATE TABLE effect (n INT)`)
	bouncer := db.Bouncer(t, "default_pool_size = 2")
	pool, err := sql.Open(db.Database.Driver, db.DSNAt(bouncer.Addr())+"&default_query_exec_mode=exec")
	must(t, err)
	defer pool.Close()
	far := &database{Database: db.Database, DB: pool, dialect: db.dialect}
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for n := range 5 {
				_, err := far.once(t, fmt.Sprint("message", n), func(ctx context.Context, tx *sql.Tx) ([]byte, error) {
					g := fence.On(tx, db.dialect)
					if err := errors.Join(g.Check(ctx, "r", uint64(1+worker)), g.Lock(ctx, "name", fence.WithAdvisory())); errors.Is(err, fence.ErrStale) {
						return nil, insert(ctx) // that is the right answer, too
					} else if err != nil {
						return nil, err
					}
					return nil, errors.Join(g.Lock(ctx, "name", fence.Within(20*time.Second)), insert(ctx))
				}, fence.WithAttempts(100))
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if n := db.number(t, `SELECT count(*) FROM effect`); n != 5 {
		t.Errorf("%d effects of 5 messages", n)
	}
	if got := far.text(t, `SHOW lock_timeout`); got != "0" {
		t.Errorf("lock_timeout %s stays with a connection", got)
	}
	_, err = fence.Sweep(bounded(t), pool, db.dialect, time.Hour)
	must(t, err)
}
