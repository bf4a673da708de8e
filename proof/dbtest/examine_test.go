package dbtest

import (
	"database/sql"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/store/sqlstore"
	"github.com/keyturn/keyturn/store/storeurl"
)

// finds wants Examine to read each setting, and to find these wrong and no others.
func finds(t *testing.T, s driver.Store, want ...string) {
	t.Helper()
	var risks []string
	for _, f := range s.Describe().Examine(t.Context()) {
		if f.Found == "" {
			t.Errorf("%s can't be read", f.About)
		}
		if (f.Risk == "") != (f.Advice == "") {
			t.Errorf("a risk without advice, or advice without a risk: %+v", f)
		}
		if f.Risk != "" {
			risks = append(risks, f.About)
		}
	}
	if !slices.Equal(risks, want) {
		t.Errorf("%q, want %q", risks, want)
	}
}

// Examine shows the settings of a SQLite connection, and what is wrong with them. Those of servers are in
// TestWarnsOfSettings, too.
func TestExamineSQLite(t *testing.T) {
	t.Parallel()
	for params, want := range map[string][]string{"": nil, "?synchronous=off": {"synchronous"}} {
		file := "sqlite:" + t.TempDir() + "/a.db" + params
		u, err := storeurl.Parse(file)
		must(t, err)
		must(t, u.Prepare(t.Context()))
		finds(t, opened(t, file), want...)
	}
	// A data source name of a program's own may say nothing of a busy timeout and of WAL.
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "a.db"))
	must(t, err)
	defer db.Close()
	must(t, sqlstore.Migrate(t.Context(), db, sqlstore.SQLite))
	finds(t, open(t, db, sqlstore.SQLite), "journal_mode", "busy_timeout")
}

// A replica for which no COMMIT waits is found, and then a pool that passes no warnings on; and a server that
// leaves its data to the system's memory.
func TestExamineReplica(t *testing.T) {
	servertest.Long(t)
	alone := onPostgres(t)
	p := newPair(t)          // with fsync=off
	t.Cleanup(p.Server.Kill) // before its replica ends: DROP DATABASE would wait for that one
	s := open(t, p.Open(t), sqlstore.Postgres)
	take(t, s, request("k", time.Minute))
	p.replica.CaughtUp(t, p.Server) // so it is connected
	finds(t, s, "fsync", "synchronous_standby_names")
	p.Server.Synchronous(t)
	finds(t, open(t, p.Open(t), sqlstore.Postgres), "warnings", "fsync")
	finds(t, open(t, alone.Open(t), sqlstore.Postgres), "fsync")
}
