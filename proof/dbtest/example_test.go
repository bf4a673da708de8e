package dbtest

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"os"
	"path/filepath"

	_ "modernc.org/sqlite"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/store/sqlstore"
)

// A SQLite file locks the processes of one machine. Nothing has to be installed.
func Example() {
	dir, err := os.MkdirTemp("", "locks")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "locks.db")+"?_pragma=busy_timeout(5000)&_pragma=journal_mode(wal)")
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if err := sqlstore.Migrate(ctx, db, sqlstore.SQLite); err != nil {
		log.Fatal(err)
	}
	store, err := sqlstore.New(ctx, db, sqlstore.SQLite)
	if err != nil {
		log.Fatal(err)
	}
	eng, err := core.New(store) // closes the store
	if err != nil {
		log.Fatal(err)
	}
	err = eng.Do(ctx, "report:daily", func(context.Context) error {
		_, err := fmt.Println("one process of this machine")
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := eng.Close(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: one process of this machine
}
