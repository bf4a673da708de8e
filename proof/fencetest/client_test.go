package fencetest

import (
	"testing"

	_ "github.com/lib/pq" // the driver "postgres"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/fence"
)

// drivers are the names that connect knows for a dialect.
var drivers = map[fence.Dialect][]string{
	fence.SQLite:   {"sqlite"},
	fence.Postgres: {"pgx", "postgres", pgxAlone}, // "postgres" is lib/pq
	fence.MySQL:    {"mysql"},
}

// onEachClient runs a test on each dialect with each of its drivers, on a database of its own.
func onEachClient(t *testing.T, test func(t *testing.T, db *database, driver string)) {
	onEach(t, func(t *testing.T, db *database) {
		for _, driver := range drivers[db.dialect] {
			if testing.Short() && driver == "postgres" {
				continue // the other two have all that is not its own
			}
			t.Run(driver, func(t *testing.T) {
				test(t, newDatabase(t, db.dialect, open(t, db.dialect), db.level), driver)
			})
		}
	})
}

// connect opens dsn. call is called right before each COMMIT.
func (db *database) connect(t testing.TB, driver, dsn string, call func()) backend {
	t.Helper()
	b, err := openBackend(driver, dsn, db.dialect, func(point string) {
		if point == beforeCommit {
			call()
		}
	})
	must(t, err)
	t.Cleanup(b.close)
	return b
}

// openBackend opens dsn. at is called before and after each COMMIT.
func openBackend(driver, dsn string, d fence.Dialect, at func(point string)) (backend, error) {
	if driver == pgxAlone {
		pool, err := watchedPgx(dsn, at)
		return pgxBackend{pool}, err
	}
	db, err := watchedDB(driver, dsn, at)
	return sqlBackend{db, d}, err
}

// bothWays are the functions that do work once.
func bothWays(t *testing.T, c backend) map[string]func(id string, fn work) (core.Outcome, error) {
	return map[string]func(id string, fn work) (core.Outcome, error){
		"Once": func(id string, fn work) (core.Outcome, error) { return c.once(bounded(t), id, fn) },
		"WithDatabase": func(id string, fn work) (core.Outcome, error) {
			return newEngine(t).Once(bounded(t), id, fn, c.withDatabase())
		},
	}
}
