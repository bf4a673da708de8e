package scenario

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/keyturn/keyturn/fence"
	"github.com/keyturn/keyturn/internal/sqltest"
	"github.com/keyturn/keyturn/proof/bench/dblock"
	"github.com/keyturn/keyturn/proof/bench/lock"
	"github.com/keyturn/keyturn/proof/bench/stats"
)

// SQL returns the scenarios on databases: locks in them, and what package fence costs beside an UPDATE.
func SQL() []Scenario {
	var all []Scenario
	for _, kind := range []string{dblock.Postgres, dblock.MariaDB, dblock.SQLite} {
		for _, callers := range []int{1, 8} {
			all = append(all, Scenario{
				Name: fmt.Sprintf("%s-%d", kind, callers), About: fmt.Sprintf("goroutines with keys of their own: %d", callers),
				Systems: dblock.Ways(kind), Measure: onDatabase(kind, sqlPairs(callers)),
			})
		}
		all = append(all, Scenario{
			Name: kind + "-handover", About: "from release in one process to grant in another",
			Systems: dblock.Ways(kind), Measure: onDatabase(kind, sqlHandover),
		}, Scenario{
			Name: kind + "-fence", About: "an UPDATE in a transaction, and what package fence adds",
			Systems: []string{"check", "claim", "mark", "update"}, Measure: onDatabase(kind, fenced),
		})
	}
	return append(all, Scenario{
		Name: "postgres-held", About: "10 000 leases kept alive", Systems: []string{"keyturn"}, Once: true, Measure: onDatabase(dblock.Postgres, sqlHeld),
	})
}

// onDatabase measures on an empty database of its own.
func onDatabase(kind string, measure func(ctx context.Context, env *Env, d *sqltest.Database, system string) ([]stats.Sample, error)) func(context.Context, *Env, string) ([]stats.Sample, error) {
	return func(ctx context.Context, env *Env, system string) (_ []stats.Sample, err error) {
		d, drop, err := env.Database(kind)
		if err != nil {
			return nil, err
		}
		samples, err := measure(ctx, env, d, system)
		return samples, errors.Join(err, drop())
	}
}

// rowsEach is how many keys a goroutine takes in turn. The rows of all are there when it is measured.
const rowsEach = 16

func sqlPairs(callers int) func(context.Context, *Env, *sqltest.Database, string) ([]stats.Sample, error) {
	return func(ctx context.Context, env *Env, d *sqltest.Database, system string) (_ []stats.Sample, err error) {
		l, err := dblock.Open(ctx, system, d)
		if err != nil {
			return nil, err
		}
		defer closing(&err, l)
		next := make([]int, callers)
		span := env.Size.Span
		did, err := load{callers, max(warm(span), 50*time.Millisecond), span}.run(ctx, func(ctx context.Context, i int) (time.Duration, error) {
			next[i]++
			// Without the load's context: a statement that is cut off would cost its connection.
			_, took, err := pair(context.WithoutCancel(ctx), l, fmt.Sprintf("user:%d:%d", i, next[i]%rowsEach))
			return took, err
		})
		if err != nil {
			return nil, err
		}
		return pairFigures(did, span), nil
	}
}

// sqlHandover passes a key back and forth between two pools, as handover does between processes.
func sqlHandover(ctx context.Context, env *Env, d *sqltest.Database, system string) (_ []stats.Sample, err error) {
	var sides [2]lock.Locker
	for i := range sides {
		if sides[i], err = dblock.Open(ctx, system, d); err != nil {
			return nil, err
		}
		defer closing(&err, sides[i])
	}
	took := stats.NewHistogram()
	unlock, err := sides[0].Lock(ctx, hotKey)
	if err != nil {
		return nil, err
	}
	for i := range env.Size.Handovers {
		type grant struct {
			unlock lock.Unlock
			err    error
			at     time.Time
		}
		granted := make(chan grant, 1)
		go func() {
			unlock, err := sides[(i+1)%2].Lock(ctx, hotKey)
			granted <- grant{unlock, err, time.Now()}
		}()
		time.Sleep(3*time.Millisecond + rand.N(15*time.Millisecond)) // as in handover
		began := time.Now()
		err := unlock(ctx)
		g := <-granted
		if err := errors.Join(err, g.err); err != nil {
			return nil, err
		}
		took.Record(g.at.Sub(began))
		unlock = g.unlock
	}
	return latencies(took), unlock(ctx)
}

// fenced has goroutines change a row of their own in transactions.
func fenced(ctx context.Context, env *Env, d *sqltest.Database, system string) (_ []stats.Sample, err error) {
	const callers = 4
	dialect := map[string]fence.Dialect{dblock.Postgres: fence.Postgres, dblock.MariaDB: fence.MySQL, dblock.SQLite: fence.SQLite}[d.Kind]
	db, err := dblock.Pool(d)
	if err != nil {
		return nil, err
	}
	defer closing(&err, db)
	statements, err := fence.Schema(dialect)
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
	span := env.Size.Span
	did, err := load{callers, max(warm(span), 50*time.Millisecond), span}.run(ctx, func(ctx context.Context, i int) (time.Duration, error) {
		ctx = context.WithoutCancel(ctx)
		began := time.Now()
		next[i]++
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return 0, err
		}
		defer tx.Rollback()
		if err := guarded(ctx, fence.On(tx, dialect), system, i, next[i]); err != nil {
			return 0, err
		}
		if _, err := tx.ExecContext(ctx, fmt.Sprintf("UPDATE account SET balance = balance + 1 WHERE id = %d", i)); err != nil {
			return 0, err
		}
		return time.Since(began), tx.Commit()
	})
	if err != nil {
		return nil, err
	}
	return []stats.Sample{perSecond("transactions", did.Done, span), micros("p50", did.Took.Quantile(0.5)), micros("p99", did.Took.Quantile(0.99))}, nil
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

// transactions returns how many a PostgreSQL has committed in this database. The question is one more.
func transactions(ctx context.Context, d *sqltest.Database, settle time.Duration) (n int64, err error) {
	db, err := sql.Open(d.Driver, d.DSN())
	if err != nil {
		return 0, err
	}
	defer db.Close()
	// Connections report what they did once a second.
	if err := pause(ctx, min(settle, 1200*time.Millisecond)); err != nil {
		return 0, err
	}
	err = db.QueryRowContext(ctx, "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()").Scan(&n)
	return n, err
}

// counted returns how many transactions there are in a while, for each second of it.
func counted(ctx context.Context, d *sqltest.Database, span time.Duration) (rate float64, err error) {
	before, err := transactions(ctx, d, span)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if err := pause(ctx, span); err != nil {
		return 0, err
	}
	after, err := transactions(ctx, d, span)
	return float64(after-before-1) / time.Since(began).Seconds(), err
}

// sqlHeld takes a tenth of the leases that held takes, and counts the statements that keep them alive.
func sqlHeld(ctx context.Context, env *Env, d *sqltest.Database, system string) (_ []stats.Sample, err error) {
	l, err := dblock.Open(ctx, system, d)
	if err != nil {
		return nil, err
	}
	defer closing(&err, l)
	unlocks, err := lockMany(ctx, l, env.Size.Held/10)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unlockMany(ctx, unlocks)) }()
	rate, err := counted(ctx, d, env.Size.HeldSpan)
	return []stats.Sample{{Unit: "statements per third of the TTL", Value: rate * (dblock.TTL / 3).Seconds()}}, err
}
