package fencetest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/fence"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/store/redlock"
)

// A quorum of servers has the locks and no records. The database has them.
func TestOnceOnRedlock(t *testing.T) {
	db := newDatabase(t, fence.SQLite, open(t, fence.SQLite), 0)
	db.run(t, `CREATE TABLE effect (n INT)`)
	nodes := make([]*redis.Client, 3)
	for i := range nodes {
		nodes[i] = redistest.Start(t).Client()
	}
	engines := make([]*core.Engine, 2) // as in two processes
	for i := range engines {
		store, err := redlock.New(nodes, redlock.WithPersistent(), redlock.WithNodeTimeout(time.Second))
		must(t, err)
		engines[i], err = core.New(store)
		must(t, err)
		defer engines[i].Close(context.Background())
	}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			out, err := engines[i%2].Once(bounded(t), "k", func(ctx context.Context) ([]byte, error) { return []byte("first"), insert(ctx) },
				fence.WithDatabase(db.DB, db.dialect))
			if err != nil || string(out.Result) != "first" {
				t.Errorf("%+v, %v", out, err)
			}
		})
	}
	all.Wait()
	if n := db.number(t, `SELECT count(*) FROM effect`); n != 1 {
		t.Errorf("%d effects", n)
	}
}
