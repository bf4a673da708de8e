package main_test

import (
	"database/sql"
	"log/slog"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/drivertest/model"
	"github.com/keyturn/keyturn/internal/sqltest"
	"github.com/keyturn/keyturn/pgx/pgwake"
	"github.com/keyturn/keyturn/store/sqlstore"
)

// TestDatabasesDoWhatTheModelDoes runs programs on each dialect. With messages, waiters of PostgreSQL
// look so seldom that one which is missing shows.
func TestDatabasesDoWhatTheModelDoes(t *testing.T) {
	for name, test := range map[string]struct {
		dialect  sqlstore.Dialect
		database func(testing.TB) *sqltest.Database
		messages bool
	}{
		"postgres":                {sqlstore.Postgres, sqltest.Postgres, false},
		"postgres, with messages": {sqlstore.Postgres, sqltest.Postgres, true},
		"mariadb":                 {sqlstore.MySQL, sqltest.MySQL, false},
		"sqlite":                  {sqlstore.SQLite, sqltest.SQLite, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := test.database(t)
			if err := sqlstore.Migrate(t.Context(), d.Open(t), test.dialect); err != nil {
				t.Fatal(err)
			}
			pools := [2]*sql.DB{d.Open(t), d.Open(t)}
			manyPrograms(t, func(program []model.Step) error {
				return onDatabase(t, program, d, pools, test.dialect, test.messages)
			})
		})
	}
}

// onDatabase runs a program on two processes. The database remembers nothing of the program before.
func onDatabase(t *testing.T, program []model.Step, d *sqltest.Database, pools [2]*sql.DB, dialect sqlstore.Dialect, messages bool) error {
	rig := model.Rig{
		Keys: keys, Sleep: time.Sleep, Settle: func() {}, Patience: 5 * time.Second, Prompt: messages,
		Latitude: model.Latitude{Blurred: true},
	}
	for _, table := range []string{"lock", "member", "record", "forced", "version"} {
		if _, err := pools[0].Exec("DELETE FROM keyturn_" + table); err != nil {
			t.Fatal(err)
		}
	}
	for _, pool := range pools {
		silent := sqlstore.WithLogger(slog.New(slog.DiscardHandler)) // the servers don't wait for the disk
		opts := []sqlstore.Option{silent, sqlstore.WithPoll(10 * time.Millisecond), sqlstore.WithWaiterLease(often)}
		if messages {
			listener, err := pgwake.Dial(t.Context(), d.DSN())
			if err != nil {
				t.Fatal(err)
			}
			opts = []sqlstore.Option{silent, sqlstore.WithPoll(time.Minute), sqlstore.WithWaiterLease(seldom), sqlstore.WithWaker(listener)}
		}
		store, err := sqlstore.New(t.Context(), pool, dialect, opts...)
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		rig.Stores = append(rig.Stores, store)
	}
	return rig.Run(program)
}
