package scenario

import (
	"context"
	"fmt"
	"time"

	"github.com/keyturn/keyturn/fence"
	"github.com/keyturn/keyturn/proof/bench/stats"
)

// fenced has goroutines change a row of their own in transactions.
func fenced(ctx context.Context, p *place, how string) (_ []stats.Sample, err error) {
	const callers = 4
	db, err := p.database.Pool()
	if err != nil {
		return nil, err
	}
	defer closing(&err, db.Close)
	statements, err := fence.Schema(fence.Postgres)
	if err != nil {
		return nil, err
	}
	statements = append(statements, "CREATE TABLE account (id int PRIMARY KEY, balance int, token bigint)", "INSERT INTO account VALUES (0, 0, 0), (1, 0, 0), (2, 0, 0), (3, 0, 0)")
	for _, s := range statements {
		if _, err := db.ExecContext(ctx, s); err != nil {
			return nil, err
		}
	}
	next := make([]uint64, callers)
	// Not the load's context: a statement that is cut off would cost its connection.
	return p.metered(ctx, "transactions", p.load(callers, p.size.Span), func(_ context.Context, i int) (time.Duration, error) {
		began := time.Now()
		next[i]++
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return 0, err
		}
		defer tx.Rollback()
		if err := guarded(ctx, fence.On(tx, fence.Postgres), how, i, next[i]); err != nil {
			return 0, err
		}
		if _, err := tx.ExecContext(ctx, fmt.Sprintf("UPDATE account SET balance = balance + 1 WHERE id = %d", i)); err != nil {
			return 0, err
		}
		err = tx.Commit()
		return time.Since(began), err
	})
}

// guarded is what fence adds. Every transaction has a greater token, and another message.
func guarded(ctx context.Context, g *fence.Guard, how string, i int, n uint64) (err error) {
	switch how {
	case "check":
		return g.Check(ctx, fmt.Sprintf("account:%d", i), n)
	case "claim":
		return g.Claim(ctx, fence.Row{Table: "account", IDColumn: "id", ID: i, TokenColumn: "token"}, n)
	case "mark":
		_, err = g.Mark(ctx, fmt.Sprintf("message:%d:%d", i, n))
	}
	return err
}
