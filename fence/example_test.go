package fence_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/fence"
)

var (
	db  *sql.DB      // a database, opened with any driver
	eng *core.Engine // an engine on any store
)

// The lock is in another system, and the account in this database. A holder that was paused for
// longer than its lease gets ErrStale instead of overwriting what the next holder wrote.
func ExampleGuard_Claim() {
	deposit := func(ctx context.Context, id, amount int) error {
		return eng.Do(ctx, fmt.Sprint("account:", id), func(ctx context.Context) error {
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			defer tx.Rollback() // does nothing after the commit
			lease, _ := core.LeaseFrom(ctx)
			row := fence.Row{Table: "account", IDColumn: "id", ID: id, TokenColumn: "token"}
			if err := fence.On(tx, fence.Postgres).Claim(ctx, row, lease.Token()); err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, `UPDATE account SET balance = balance + $1 WHERE id = $2`, amount, id); err != nil {
				return err
			}
			return tx.Commit()
		})
	}
	_ = deposit
}

// The same with an UPDATE of one's own, which compares the token itself.
func ExampleWritten() {
	write := func(ctx context.Context, id, balance int) error {
		lease, ok := core.LeaseFrom(ctx)
		if !ok {
			return core.ErrNotHeld
		}
		err := fence.Written(db.ExecContext(ctx,
			`UPDATE account SET balance = $1, token = $2 WHERE id = $3 AND token <= $2`, balance, int64(lease.Token()), id))
		if errors.Is(err, fence.ErrStale) {
			return fmt.Errorf("somebody else has taken over: %w", err)
		}
		return err
	}
	_ = write
}

// All work is in one transaction of this database, so its own lock is enough. It ends with the
// transaction, and cannot be lost.
func ExampleGuard_Lock() {
	rebuild := func(ctx context.Context) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if err := fence.On(tx, fence.Postgres).Lock(ctx, "rebuild", fence.NoWait()); err != nil {
			return err // fence.ErrLocked: it is being rebuilt
		}
		if _, err := tx.ExecContext(ctx, `INSERT INTO total SELECT ...`); err != nil {
			return err
		}
		return tx.Commit()
	}
	_ = rebuild
}

// A message that is delivered twice, or whose worker crashes at any point, has one effect.
func ExampleOnce() {
	receive := func(ctx context.Context, id, text string) error {
		out, err := fence.Once(ctx, db, fence.Postgres, "msg:"+id, func(ctx context.Context, tx *sql.Tx) ([]byte, error) {
			_, err := tx.ExecContext(ctx, `INSERT INTO inbox (id, text) VALUES ($1, $2)`, id, text)
			return []byte("stored"), err
		})
		if err != nil {
			return err
		}
		fmt.Println(string(out.Result), out.Duplicate)
		return nil
	}
	_ = receive
}

// The tables of the package, made by a migration of the service.
func ExampleSchema() {
	statements, err := fence.Schema(fence.SQLite)
	if err != nil {
		panic(err)
	}
	fmt.Println(statements[0])
	// Output: CREATE TABLE IF NOT EXISTS "keyturn_fence" (resource BLOB NOT NULL PRIMARY KEY, token BIGINT NOT NULL)
}

// One option, the same in every middleware: here without one. Whatever crashes, the order is
// charged once, and a repeat gets the first answer.
func ExampleWithDatabase() {
	charge := func(ctx context.Context, order string, cents int) (receipt string, err error) {
		out, err := eng.Once(ctx, "charge:"+order, func(ctx context.Context) ([]byte, error) {
			tx, _ := fence.TxFrom(ctx) // it is committed when this function has returned
			_, err := tx.ExecContext(ctx, `INSERT INTO charge (order_id, cents) VALUES ($1, $2)`, order, cents)
			return []byte("receipt for " + order), err
		}, fence.WithDatabase(db, fence.Postgres))
		if errors.Is(err, core.ErrRolledBack) {
			return "", fmt.Errorf("come again: %w", err)
		}
		return string(out.Result), err
	}
	_ = charge
}

// Conflicts are rare, so there is no lock: a version column tells whether somebody else was
// quicker.
func ExampleOptimistic() {
	rename := func(ctx context.Context, id int, change func(name string) string) error {
		return fence.Optimistic(ctx, func(ctx context.Context) error {
			var name string
			var version int
			if err := db.QueryRowContext(ctx, `SELECT name, version FROM member WHERE id = $1`, id).Scan(&name, &version); err != nil {
				return err
			}
			return fence.Written(db.ExecContext(ctx,
				`UPDATE member SET name = $1, version = version + 1 WHERE id = $2 AND version = $3`, change(name), id, version))
		})
	}
	_ = rename
}
