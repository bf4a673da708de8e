package fencetest

import (
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/fence"
	"github.com/keyturn/keyturn/internal/sqltest"
	"github.com/keyturn/keyturn/store/memstore"
)

// tokenCheck is Check, or Claim of a row of the user's own.
type tokenCheck func(t *testing.T, tx *transaction, token uint64) error

// onEachCheck runs a test with Check and with Claim.
func onEachCheck(t *testing.T, test func(t *testing.T, db *database, checkToken tokenCheck)) {
	t.Run("Check", func(t *testing.T) {
		onEachLevel(t, func(t *testing.T, db *database) {
			test(t, db, func(t *testing.T, tx *transaction, token uint64) error {
				return tx.Check(bounded(t), "account:1", token)
			})
		})
	})
	t.Run("Claim", func(t *testing.T) {
		onEachLevel(t, func(t *testing.T, db *database) {
			db.run(t, `CREATE TABLE account (id INT PRIMARY KEY, token BIGINT)`, `INSERT INTO account VALUES (1, NULL), (2, 99)`)
			row := fence.Row{Table: "account", IDColumn: "id", ID: 1, TokenColumn: "token"}
			test(t, db, func(t *testing.T, tx *transaction, token uint64) error { return tx.Claim(bounded(t), row, token) })
		})
	})
}

func TestSmallerTokensAreStale(t *testing.T) {
	onEachCheck(t, func(t *testing.T, db *database, checkToken tokenCheck) {
		for _, step := range []struct {
			token  uint64
			commit bool
			seen   uint64 // 0: it passes
		}{
			{5, true, 0},
			{5, true, 0}, // one lease writes many times
			{7, false, 0},
			{6, true, 0}, // what was rolled back was not seen
			{8, true, 0},
			{7, true, 8},
			{8, true, 0},
		} {
			tx := db.begin(t)
			err := checkToken(t, tx, step.token)
			var stale *fence.StaleError
			switch {
			case step.seen == 0 && err != nil:
				t.Errorf("token %d: %v", step.token, err)
			case step.seen > 0 && (!errors.As(err, &stale) || !errors.Is(err, fence.ErrStale)):
				t.Errorf("token %d: %v, want a StaleError", step.token, err)
			case step.seen > 0 && (stale.Seen != step.seen || stale.Token != step.token || stale.Resource == ""):
				t.Errorf("token %d: %+v", step.token, stale)
			}
			if step.commit {
				must(t, tx.Commit())
			} else {
				must(t, tx.Rollback())
			}
		}
	})
}

// A transaction that checks later commits later, also if the tokens are equal. One that waited for a greater
// token is refused, or repeats and then is refused.
func TestChecksFollowEachOther(t *testing.T) {
	onEachCheck(t, func(t *testing.T, db *database, checkToken tokenCheck) {
		must(t, db.in(t, func(tx *transaction) error { return checkToken(t, tx, 4) }))
		for _, c := range []struct {
			first, second uint64
			want          error
		}{{5, 5, nil}, {5, 6, nil}, {9, 8, fence.ErrStale}} {
			first := db.begin(t)
			must(t, checkToken(t, first, c.first))
			second := func() error {
				return db.in(t, func(tx *transaction) error { return checkToken(t, tx, c.second) })
			}
			err := waits(t, second, func() { must(t, first.Commit()) })
			check(t, errors.Is(err, c.want), "token %d after %d: %v", c.second, c.first, err)
		}
	})
}

// Many at a time: what is written under a token never comes after what was written under a
// greater one.
func TestTokensOfWritesIncrease(t *testing.T) {
	const writers, writes = 6, 15
	onEachCheck(t, func(t *testing.T, db *database, checkToken tokenCheck) {
		db.run(t, map[fence.Dialect]string{
			fence.Postgres: `CREATE TABLE history (nr SERIAL PRIMARY KEY, token BIGINT)`,
			fence.MySQL:    `CREATE TABLE history (nr INT AUTO_INCREMENT PRIMARY KEY, token BIGINT)`,
			fence.SQLite:   `CREATE TABLE history (nr INTEGER PRIMARY KEY AUTOINCREMENT, token BIGINT)`,
		}[db.dialect])
		var all sync.WaitGroup
		for range writers {
			all.Go(func() {
				for n := range writes {
					token := uint64(1 + n*10 + rand.IntN(20))
					err := db.in(t, func(tx *transaction) error {
						if err := checkToken(t, tx, token); err != nil {
							return err
						}
						_, err := tx.ExecContext(bounded(t), fmt.Sprintf(`INSERT INTO history (token) VALUES (%d)`, token))
						return err
					})
					if err != nil && !errors.Is(err, fence.ErrStale) {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		if n := db.number(t, `SELECT count(*) FROM history`); n < 3 {
			t.Errorf("only %d writes", n)
		}
		if n := db.number(t, `SELECT count(*) FROM history a JOIN history b ON b.nr > a.nr AND b.token < a.token`); n > 0 {
			t.Errorf("%d times a smaller token wrote after a greater one", n)
		}
	})
}

// A holder that was paused between its last look at the lease and its write. Without a fence it
// overwrites what the next holder wrote.
func TestAPausedHolderOverwritesNothing(t *testing.T) {
	write := func(t *testing.T, tx *transaction, err error, balance int) error {
		if err == nil {
			_, err = tx.ExecContext(bounded(t), fmt.Sprintf(`UPDATE account SET balance = %d WHERE id = 1`, balance))
		}
		return err
	}
	fences := map[string]func(t *testing.T, tx *transaction, token uint64, balance int) error{
		"none": func(t *testing.T, tx *transaction, _ uint64, balance int) error { return write(t, tx, nil, balance) },
		"Check": func(t *testing.T, tx *transaction, token uint64, balance int) error {
			return write(t, tx, tx.Check(bounded(t), "account:1", token), balance)
		},
		"Claim": func(t *testing.T, tx *transaction, token uint64, balance int) error {
			return write(t, tx, tx.Claim(bounded(t), fence.Row{Table: "account", IDColumn: "id", ID: 1, TokenColumn: "token"}, token), balance)
		},
		"Written": func(t *testing.T, tx *transaction, token uint64, balance int) error {
			return fence.Written(tx.ExecContext(bounded(t), fmt.Sprintf(
				`UPDATE account SET balance = %d, token = %d WHERE id = 1 AND token <= %d`, balance, token, token)))
		},
	}
	for name, write := range fences {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, db *database) {
				db.run(t, `CREATE TABLE account (id INT PRIMARY KEY, token BIGINT, balance INT)`, `INSERT INTO account VALUES (1, 0, 0)`)
				const paused, next = 10, 11
				must(t, db.in(t, func(tx *transaction) error { return write(t, tx, next, 200) }))
				err := db.in(t, func(tx *transaction) error { return write(t, tx, paused, 100) })
				balance := db.number(t, `SELECT balance FROM account`)
				if name == "none" {
					check(t, err == nil && balance == 100, "%v, %d: the test could not fail", err, balance)
					return
				}
				check(t, errors.Is(err, fence.ErrStale) && balance == 200, "%v, and the balance is %d", err, balance)
			})
		})
	}
}

func TestCheckLease(t *testing.T) {
	db := newDatabase(t, fence.SQLite, sqltest.SQLite(t), sql.LevelDefault)
	eng, err := core.New(memstore.New())
	must(t, err)
	defer eng.Close(bounded(t))
	ctx := bounded(t)
	tx := db.begin(t)
	expect(t, tx.CheckLease(ctx, "r"), core.ErrNotHeld)
	old, err := eng.Acquire(ctx, "k")
	must(t, err)
	under := old.Context()
	must(t, tx.CheckLease(under, "r"))
	must(t, old.Release(ctx))
	expect(t, tx.CheckLease(under, "r"), core.ErrReleased)

	young, err := eng.Acquire(ctx, "k")
	must(t, err)
	defer young.Release(ctx)
	must(t, tx.CheckLease(young.Context(), "r"))
	expect(t, tx.Check(ctx, "r", old.Token()), fence.ErrStale)
}

// A transaction that has read before sees the database as it was then, from REPEATABLE READ on.
// Its checks and marks must not.
func TestAfterAnEarlierRead(t *testing.T) {
	onEachLevel(t, func(t *testing.T, db *database) {
		if db.dialect == fence.SQLite || db.dialect == fence.MySQL && db.level == sql.LevelSerializable {
			return // what one transaction reads, no other can write
		}
		db.run(t, `CREATE TABLE account (id INT PRIMARY KEY, token BIGINT)`, `INSERT INTO account VALUES (1, 1)`)
		row := fence.Row{Table: "account", IDColumn: "id", ID: 1, TokenColumn: "token"}
		mark := func(tx *transaction, content string) error {
			_, err := tx.Mark(bounded(t), "id", fence.WithFingerprint([]byte(content)))
			return err
		}
		for name, try := range map[string]func(tx *transaction) error{
			"check": func(tx *transaction) error { return tx.Check(bounded(t), "r", 8) },
			"claim": func(tx *transaction) error { return tx.Claim(bounded(t), row, 8) },
			"mark":  func(tx *transaction) error { return mark(tx, "two") },
		} {
			db.run(t, `DELETE FROM keyturn_fence`, `DELETE FROM keyturn_mark`, `UPDATE account SET token = 1`)
			tx := db.begin(t)
			for _, table := range []string{"keyturn_fence", "keyturn_mark", "account"} {
				var n int
				must(t, tx.QueryRowContext(bounded(t), `SELECT count(*) FROM `+table).Scan(&n))
			}
			must(t, db.in(t, func(tx *transaction) error {
				return errors.Join(tx.Check(bounded(t), "r", 9), tx.Claim(bounded(t), row, 9), mark(tx, "one"))
			}))
			err := try(tx)
			_ = tx.Rollback() // its locks
			check(t, errors.Is(err, fence.ErrStale) || errors.Is(err, fence.ErrRetry) || errors.Is(err, core.ErrFingerprintMismatch), "%s: %v", name, err)
		}
	})
}
