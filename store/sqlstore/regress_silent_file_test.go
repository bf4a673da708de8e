package sqlstore_test

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/store/sqlstore"
)

// A SQLite that did not answer kept New for ever: the question for its file had no bound.
func TestSilentSQLiteDoesNotKeepNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := sql.OpenDB(silent{})
		defer db.Close()
		start := time.Now()
		store, err := sqlstore.New(context.Background(), db, sqlstore.SQLite, sqlstore.WithLogger(slog.New(slog.DiscardHandler)))
		if err != nil || time.Since(start) > 2*time.Second {
			t.Fatalf("%v, after %v", err, time.Since(start))
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
}

// silent is a database that answers nothing.
type silent struct{}

func (silent) Connect(ctx context.Context) (sqldriver.Conn, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (silent) Driver() sqldriver.Driver { return nil }
