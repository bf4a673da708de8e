package trial

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/sqltest"
	_ "github.com/keyturn/keyturn/proof/drivers"
	"github.com/keyturn/keyturn/store/sqlstore"
)

func newPostgres(t *redistest.Run, c Config) bed {
	data := sqltest.StartPostgres(t).Database(t)
	db := data.Open(t)
	if err := sqlstore.Migrate(context.Background(), db, sqlstore.Postgres); err != nil {
		t.Fatalf("%w", err)
	}
	do := func(statement string) error {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_, err := db.ExecContext(ctx, statement)
		return err
	}
	// The tokens of grants may be 1 ms ahead of the clock, so nothing is granted for some more.
	forget := func() {
		tables := strings.Join([]string{"keyturn_lock", "keyturn_member", "keyturn_record", "keyturn_forced", "keyturn_version"}, ", ")
		for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
			err := do(fmt.Sprintf("BEGIN; TRUNCATE %s; SELECT pg_sleep(0.01); COMMIT", tables)) // it may be the victim of a deadlock
			if err == nil {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("truncate: %w", err)
			}
		}
	}
	b := &keeper{t: t, server: data.Server, erase: forget, at: data.DSNAt, more: []fault{
		on("forget", true, func(*stroke) { forget() }),
		on("terminate", false, func(s *stroke) {
			for range 5 {
				_ = do("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
				s.lasts(c.ttl/20, c.ttl/5)
			}
		}),
	}}
	return b.connect(c, data.Server.Addr())
}
