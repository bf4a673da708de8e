package fencetest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/fence"
)

// MariaDB commits a transaction before each statement that changes a table's definition. The mark was
// committed with it, so an error of the handler afterwards lost the effect: the next delivery was a
// duplicate. A COMMIT that a handler sends does the same on every database.
func TestFunctionThatEndsItsTransaction(t *testing.T) {
	onEachClient(t, func(t *testing.T, db *database, driver string) {
		db.run(t, `CREATE TABLE effect (n INT)`)
		c := db.connect(t, driver, db.DSN(), func() {})
		own := errors.New("own")
		for i, e := range []struct {
			statement string
			fails     bool
			ends      bool // on this dialect
		}{
			{`CREATE TABLE t%d (n INT)`, true, db.dialect == fence.MySQL},
			{`CREATE TABLE t%d (n INT)`, false, db.dialect == fence.MySQL},
			{`COMMIT`, true, true},
		} {
			statement := e.statement
			if statement != `COMMIT` {
				statement = fmt.Sprintf(statement, i)
			}
			for name, once := range bothWays(t, c) {
				db.run(t, `DELETE FROM effect`)
				ran := 0
				deliver := func() (core.Outcome, error) {
					return once(fmt.Sprint(name, i), func(ctx context.Context) ([]byte, error) {
						if ran++; ran > 1 {
							return nil, c.insert(ctx, `INSERT INTO effect VALUES (1)`)
						}
						err := errors.Join(c.insert(ctx, `INSERT INTO effect VALUES (1)`), c.insert(ctx, statement))
						if e.fails {
							err = errors.Join(err, own)
						}
						return []byte("done"), err
					})
				}
				_, first := deliver()
				out, again := deliver()
				what := fmt.Sprintf("%s, %s, fails %v", name, e.statement, e.fails)
				switch {
				case e.ends:
					if !errors.Is(first, own) && !errors.Is(first, fence.ErrTransactionEnded) || !errors.Is(again, fence.ErrTransactionEnded) || ran != 1 {
						t.Errorf("%s: %v, then %v, after %d runs", what, first, again, ran)
					}
				case e.fails:
					expect(t, first, own)
					fallthrough
				default:
					if n := db.number(t, `SELECT count(*) FROM effect`); again != nil || out.Duplicate == e.fails || n != 1 {
						t.Errorf("%s: %v, then %+v, %v and %d effects", what, first, out, again, n)
					}
				}
				if !e.fails {
					db.run(t, `DROP TABLE `+fmt.Sprintf(`t%d`, i))
				}
			}
		}
		for range 2 {
			_, err := db.once(t, "Commit", func(_ context.Context, tx *sql.Tx) ([]byte, error) { return nil, tx.Commit() })
			expect(t, err, fence.ErrTransactionEnded)
		}
	})
}
