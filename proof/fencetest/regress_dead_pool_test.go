package fencetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/fence"
)

// A server that restarts, or an administrator, ends all connections of a pool. To begin a
// transaction is safe to repeat, but pgx returned 57P01 to the caller as long as there was an old
// connection.
func TestPoolWhoseConnectionsWereAllKilled(t *testing.T) {
	const conns = 8
	onEachClient(t, func(t *testing.T, db *database, driver string) {
		if db.dialect == fence.SQLite {
			return // it has no server
		}
		db.run(t, `CREATE TABLE effect (n INT)`)
		dsn := db.DSN()
		if driver == pgxAlone {
			dsn += fmt.Sprintf("&pool_max_conns=%d", conns)
		}
		c := db.connect(t, driver, dsn, func() {})
		if b, ok := c.backend.(sqlBackend); ok {
			b.db.SetMaxIdleConns(conns)
		}
		for round := range 3 {
			var inside, all sync.WaitGroup
			inside.Add(conns)
			once := func(id string, meet func()) error {
				_, err := c.once(bounded(t), id, func(ctx context.Context) ([]byte, error) {
					meet()
					return nil, c.insert(ctx, `INSERT INTO effect VALUES (1)`)
				})
				return err
			}
			for n := range conns {
				all.Go(func() {
					var met sync.Once
					err := once(fmt.Sprint(round, n), func() { met.Do(inside.Done); inside.Wait() })
					met.Do(inside.Done)
					if err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			db.killOthers(t)
			if err := once(fmt.Sprint(round, " after"), func() {}); err != nil {
				t.Error(err)
			}
			db.killOthers(t)
			_, err := newEngine(t).Once(bounded(t), fmt.Sprint(round, " option"), func(ctx context.Context) ([]byte, error) {
				return nil, c.insert(ctx, `INSERT INTO effect VALUES (1)`)
			}, c.withDatabase())
			if err != nil {
				t.Error(err, errors.Is(err, core.ErrUnavailable))
			}
		}
		if n := db.number(t, `SELECT count(*) FROM effect`); n != 3*(conns+2) {
			t.Errorf("%d effects", n)
		}
	})
}
