package sqltest

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/sqltest"
	_ "github.com/keyturn/keyturn/proof/drivers"
	_ "github.com/keyturn/keyturn/store/sqlstore"
	"github.com/keyturn/keyturn/store/storeurl"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(sqltest.Main(m)) }

// This binary does not import pgwake. A store that is opened by its URL then says that its waiters look.
func TestNoWakerIsLinked(t *testing.T) {
	u, err := storeurl.Parse(sqltest.Postgres(t).DSN())
	checktest.Must(t, err)
	checktest.Must(t, u.Prepare(t.Context()))
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	s, err := u.Open(t.Context())
	slog.SetDefault(before)
	checktest.Must(t, err)
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
