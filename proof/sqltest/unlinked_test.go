package sqltest

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/internal/sqltest"
	_ "github.com/keyturn/keyturn/store/sqlstore"
	"github.com/keyturn/keyturn/store/storeurl"
)

// This binary does not import pgwake. A store that is opened by its URL then says that its waiters look.
func TestNoWakerIsLinked(t *testing.T) {
	u, err := storeurl.Parse(sqltest.Postgres(t).DSN())
	if err != nil {
		t.Fatal(err)
	}
	if err := u.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	s, err := u.Open(t.Context())
	slog.SetDefault(before)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if text := log.String(); !strings.Contains(text, "waiters look") || !strings.Contains(text, "pgx/pgwake") {
		t.Errorf("the log: %s", text)
	}
	for _, f := range s.Describe().Examine(t.Context()) {
		if f.About == "messages" && (!strings.Contains(f.Found, "waiters look") || f.Risk != "") {
			t.Errorf("doctor: %+v", f)
		}
	}
}
