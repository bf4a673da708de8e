package dbtest

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/sqltest"
	"github.com/keyturn/keyturn/store/sqlstore"
)

// benchKeys is how many keys the callers of a benchmark take in turn. Their rows exist.
const benchKeys = 1000

// BenchmarkPairs takes and releases free keys over four connections, beside what a program would
// write by hand: a row that is inserted and deleted, a row with an end, as ShedLock has it, a row's
// lock, and a lock of the session. Only the store has tokens, a queue and renewals.
func BenchmarkPairs(b *testing.B) {
	for name, dialect := range dialects {
		b.Run(name+"/keyturn", func(b *testing.B) {
			d := dialect.database(b)
			migrate(b, d)
			s := open(b, pool(b, d), dialect.Dialect)
			pairs(b, func(ctx context.Context, key string) error {
				g, err := s.Acquire(ctx, request(key, time.Minute))
				if err != nil {
					return err
				}
				return s.Release(ctx, g)
			})
		})
		for _, hand := range byHand {
			if !hand.only[dialect.String()] {
				continue
			}
			b.Run(name+"/"+hand.name, func(b *testing.B) {
				d := dialect.database(b)
				db := pool(b, d)
				for _, statement := range hand.setup {
					if _, err := db.Exec(statement); err != nil {
						b.Fatal(err)
					}
				}
				pairs(b, func(ctx context.Context, key string) error { return hand.pair(ctx, db, key) })
			})
		}
	}
}

// pool opens four connections that stay.
func pool(b *testing.B, d *sqltest.Database) *sql.DB {
	// As SQLite is by default: it waits for the disk.
	db, err := sql.Open(d.Driver, strings.Replace(d.DSN(), "synchronous(off)", "synchronous(full)", 1))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(5)
	db.SetMaxIdleConns(5)
	return db
}

// pairs runs pair on keys that differ.
func pairs(b *testing.B, pair func(context.Context, string) error) {
	var n atomic.Int64
	for i := range benchKeys { // makes the rows
		if err := pair(b.Context(), fmt.Sprint("k", i)); err != nil {
			b.Fatal(err)
		}
	}
	b.SetParallelism(2) // on two processors
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := pair(b.Context(), fmt.Sprint("k", n.Add(1)%benchKeys)); err != nil {
				b.Error(err)
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pairs/s")
}

var (
	sqlDialects = map[string]bool{"postgres": true, "sqlite": true}
	byHand      = []struct {
		name  string
		only  map[string]bool
		setup []string
		pair  func(context.Context, *sql.DB, string) error
	}{
		{
			"insert and delete", sqlDialects,
			[]string{"CREATE TABLE hand (k varchar(100) PRIMARY KEY, owner varchar(100))"},
			func(ctx context.Context, db *sql.DB, key string) error {
				return both(ctx, db, []any{key, "me"},
					"INSERT INTO hand VALUES ($1, $2) ON CONFLICT DO NOTHING", "DELETE FROM hand WHERE k = $1 AND owner = $2")
			},
		},
		{
			"row with an end",
			map[string]bool{"postgres": true},
			[]string{"CREATE TABLE hand (k varchar(100) PRIMARY KEY, owner varchar(100), until timestamptz)"},
			func(ctx context.Context, db *sql.DB, key string) error {
				return both(ctx, db, []any{key, "me"},
					"INSERT INTO hand VALUES ($1, $2, clock_timestamp() + interval '1 min') ON CONFLICT (k) DO UPDATE SET owner = excluded.owner, until = excluded.until WHERE hand.until <= clock_timestamp()",
					"UPDATE hand SET until = clock_timestamp() WHERE k = $1 AND owner = $2")
			},
		},
		{
			"select for update",
			map[string]bool{"postgres": true},
			[]string{"CREATE TABLE hand (k varchar(100) PRIMARY KEY)", "INSERT INTO hand SELECT 'k' || n FROM generate_series(0, 999) n"},
			func(ctx context.Context, db *sql.DB, key string) error {
				tx, err := db.BeginTx(ctx, nil)
				if err != nil {
					return err
				}
				if _, err := tx.ExecContext(ctx, "SELECT 1 FROM hand WHERE k = $1 FOR UPDATE", key); err != nil {
					return err
				}
				return tx.Commit()
			},
		},
		{
			"advisory lock",
			map[string]bool{"postgres": true},
			nil,
			func(ctx context.Context, db *sql.DB, key string) error {
				conn, err := db.Conn(ctx)
				if err != nil {
					return err
				}
				defer conn.Close()
				if _, err := conn.ExecContext(ctx, "SELECT pg_advisory_lock(hashtext($1))", key); err != nil {
					return err
				}
				_, err = conn.ExecContext(ctx, "SELECT pg_advisory_unlock(hashtext($1))", key)
				return err
			},
		},
	}
)

// both runs two statements, each of which has to change one row.
func both(ctx context.Context, db *sql.DB, args []any, statements ...string) error {
	for _, statement := range statements {
		res, err := db.ExecContext(ctx, statement, args...)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); n != 1 || err != nil {
			return fmt.Errorf("%s: %d rows, %w", statement, n, err)
		}
	}
	return nil
}

// BenchmarkHandover passes one key back and forth between two processes. It reports the time from
// the call of Release to the other's grant.
func BenchmarkHandover(b *testing.B) {
	for name, dialect := range dialects {
		b.Run(name+"/looking", func(b *testing.B) { handover(b, dialect.database(b), false) })
	}
	b.Run("postgres/messages", func(b *testing.B) { handover(b, sqltest.Postgres(b), true) })
	b.Run("postgres/advisory lock", func(b *testing.B) {
		db := pool(b, sqltest.Postgres(b))
		take := func(ctx context.Context) (release func() error, err error) {
			conn, err := db.Conn(ctx)
			if err != nil {
				return nil, err
			}
			_, err = conn.ExecContext(ctx, "SELECT pg_advisory_lock(1)")
			return func() error {
				defer conn.Close()
				_, err := conn.ExecContext(ctx, "SELECT pg_advisory_unlock(1)")
				return err
			}, err
		}
		back(b, [2]func(context.Context) (func() error, error){take, take})
	})
}

func handover(b *testing.B, d *sqltest.Database, messages bool) {
	migrate(b, d)
	var sides [2]func(context.Context) (func() error, error)
	for i := range sides {
		var opts []sqlstore.Option
		if messages {
			opts = append(opts, listen(b, d, d.Server.Addr()))
		}
		s := open(b, pool(b, d), dialectOf(d), opts...)
		sides[i] = func(ctx context.Context) (func() error, error) {
			req := request("k", time.Minute)
			req.Wait = true
			g, err := s.Acquire(ctx, req)
			return func() error { return s.Release(ctx, g) }, err
		}
	}
	back(b, sides)
}

// back has two sides take the key in turn: one waits for some milliseconds when the other releases.
func back(b *testing.B, sides [2]func(context.Context) (func() error, error)) {
	ctx := b.Context()
	release, err := sides[0](ctx)
	if err != nil {
		b.Fatal(err)
	}
	var all time.Duration
	b.ResetTimer()
	for i := range b.N {
		type lease struct {
			release func() error
			err     error
			at      time.Time
		}
		got := make(chan lease, 1)
		go func() {
			r, err := sides[(i+1)%2](ctx)
			got <- lease{r, err, time.Now()}
		}()
		time.Sleep(20 * time.Millisecond) // it waits by then
		began := time.Now()
		if err := release(); err != nil {
			b.Fatal(err)
		}
		next := <-got
		if next.err != nil {
			b.Fatal(next.err)
		}
		all += next.at.Sub(began)
		release = next.release
	}
	b.ReportMetric(float64(all.Microseconds())/float64(b.N), "µs/handover")
	b.ReportMetric(0, "ns/op") // most of it is the wait before the release
	if err := release(); err != nil {
		b.Fatal(err)
	}
}
