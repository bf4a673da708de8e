package dbtest

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/internal/sqltest"
	"github.com/keyturn/keyturn/store/sqlstore"
	"github.com/keyturn/keyturn/store/storeurl"
)

// urlOf returns the URL of a database.
func urlOf(d *sqltest.Database) string {
	switch dsn := d.DSN(); d.Kind {
	case "mysql":
		account, rest, _ := strings.Cut(dsn, "@tcp(")
		return "mysql://" + account + "@" + strings.Replace(rest, ")", "", 1)
	case "sqlite":
		file, _, _ := strings.Cut(strings.TrimPrefix(dsn, "file:"), "?")
		return "sqlite:" + file + "?synchronous=off"
	default:
		return dsn
	}
}

// On each database: without tables ErrSchema, then Prepare makes them, and the store works. goleak
// sees whether Close closes the pool.
func TestURL(t *testing.T) {
	t.Parallel()
	for name, d := range dialects {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := urlOf(d.database(t))
			separator := "?"
			if strings.Contains(text, separator) {
				separator = "&"
			}
			u, err := storeurl.Parse(text + separator + "prefix=p_&waiter_lease=900ms&poll=50ms&max_conns=2")
			must(t, err)
			if _, err := u.Open(t.Context()); !errors.Is(err, sqlstore.ErrSchema) {
				t.Errorf("without tables: %v", err)
			}
			for range 2 {
				must(t, u.Prepare(t.Context()))
			}
			opened, err := u.Open(t.Context())
			must(t, err)
			s, ok := opened.(*sqlstore.Store)
			if !ok {
				t.Fatalf("%T", opened)
			}
			use(t, s, "k")
			must(t, s.Close())
		})
	}
}

// A name that is wrong makes no empty database. A directory that is not there is no missing table.
func TestURLOfNoFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "typo.db")
	if _, err := storeurl.Open(t.Context(), "sqlite:"+file+"/a.db"); !errors.Is(err, driver.ErrUnavailable) || errors.Is(err, sqlstore.ErrSchema) {
		t.Errorf("%v", err)
	}
	if _, err := storeurl.Open(t.Context(), "sqlite:"+file); !errors.Is(err, sqlstore.ErrSchema) {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

func TestURLRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]error{
		"postgres://nowhere.invalid":                  storeurl.ErrInvalidURL,
		"postgres:db":                                 storeurl.ErrInvalidURL,
		"postgres://nowhere.invalid/db?sslmode=maybe": storeurl.ErrInvalidURL,
		"postgres://nowhere.invalid/db?nosuch=1":      storeurl.ErrInvalidURL,
		"postgres://nowhere.invalid/db?poll=1ms":      driver.ErrInvalidOption,
		"mysql://a,b/db":                              storeurl.ErrInvalidURL,
		"mysql://nowhere.invalid":                     storeurl.ErrInvalidURL,
		"mysql://nowhere.invalid/db?tls=x":            storeurl.ErrInvalidURL,
		"mysql://nowhere.invalid/db?prefix=1":         driver.ErrInvalidOption,
		"sqlite:":                                     storeurl.ErrInvalidURL,
		"sqlite::memory:":                             storeurl.ErrInvalidURL,
		"sqlite://host/file":                          storeurl.ErrInvalidURL,
		"sqlite:file?synchronous=maybe":               storeurl.ErrInvalidURL,
	} {
		u, err := storeurl.Parse(text)
		if err == nil {
			_, err = u.Open(t.Context())
		}
		check(t, errors.Is(err, want), "%s: %v", text, err)
		if err := u.Prepare(t.Context()); !errors.Is(err, want) {
			t.Errorf("prepare %s: %v", text, err)
		}
	}
}

// A password is in no error, whatever the driver says.
func TestURLPassword(t *testing.T) {
	t.Parallel()
	s := sqltest.MySQL(t).Server
	for _, text := range []string{
		"mysql://nobody:se%2Fcret@" + s.Addr() + "/mysql",
		"mysql://nobody:se%2Fcret@127.0.0.1:1/mysql?tls=true",
		"postgres://nobody:se%2Fcret@127.0.0.1:1/db?sslmode=verify-full",
		"postgres://nobody:se%2Fcret@127.0.0.1:1/db?sslrootcert=/nosuch",
	} {
		opened, err := storeurl.Open(t.Context(), text)
		if err == nil { // no server has answered
			_, err = opened.Acquire(t.Context(), request("k", time.Minute))
			_ = opened.Close()
		}
		check(t, err != nil && !strings.Contains(err.Error(), "se/cret") && !strings.Contains(err.Error(), "se%2Fcret"), "%s: %v", text, err)
	}
}

// opened opens the store of a URL that the test closes.
func opened(t *testing.T, text string) driver.Store {
	t.Helper()
	s, err := storeurl.Open(t.Context(), text)
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// connected waits until messages arrive.
func connected(t *testing.T, s driver.Store) {
	t.Helper()
	checktest.Eventually(t, "messages arrive", func() bool {
		server, err := s.Describe().Identity(t.Context())
		return server != "" && err == nil
	})
}

// A store that was opened by its URL had no waker, and nothing said so: its waiter looks ever less often.
func TestURLWakes(t *testing.T) {
	d := onPostgres(t)
	b := opened(t, urlOf(d))
	for _, waker := range []string{"", "&waker=on", "&waker=off"} {
		a := opened(t, urlOf(d)+"&poll=1m&waiter_lease=3m"+waker)
		if wakes := a.Describe().OnWanted != nil; wakes != (waker != "&waker=off") {
			t.Errorf("%q: a waker: %v", waker, wakes)
		}
		if waker == "&waker=off" {
			continue
		}
		connected(t, a)
		hold, w := behind(t, a, b, "k")
		must(t, b.Release(t.Context(), hold))
		must(t, a.Release(t.Context(), w.Granted()))
	}
}

// Behind a pooler no messages arrive: the store works, and says so.
func TestURLWakerBehindAPooler(t *testing.T) { // not parallel: it is about the program's logger
	d := sqltest.Postgres(t)
	migrate(t, d)
	log, before := new(bytes.Buffer), slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(log, nil)))
	t.Cleanup(func() { slog.SetDefault(before) })
	pooled := d.DSNAt(d.Bouncer(t).Addr()) + "&default_query_exec_mode=exec"
	s := opened(t, pooled)
	use(t, s, "k")
	var found driver.Finding
	for _, f := range s.Describe().Examine(t.Context()) {
		if f.About == "messages" {
			found = f
		}
	}
	check(t, strings.Contains(found.Risk, "pooler") && strings.Contains(found.Advice, "waker=off"), "%+v", found)
	must(t, s.Close()) // nothing writes to the log any more
	text := log.String()
	check(t, strings.Count(text, "no messages of PostgreSQL arrive") == 1 && strings.Contains(text, "pooler"), "the log: %s", text)
	quiet := opened(t, pooled+"&waker=off")
	for _, f := range quiet.Describe().Examine(t.Context()) {
		check(t, f.About != "messages" || f.Risk == "", "without a waker: %+v", f)
	}
}

// Behind a pooler, a driver that keeps prepared statements does well in the first process alone.
func TestPreparedBehindAPooler(t *testing.T) {
	d := onPostgres(t)
	s := opened(t, d.DSNAt(d.Bouncer(t, "default_pool_size = 1").Addr())+"&waker=off")
	advice := ""
	for _, f := range s.Describe().Examine(t.Context()) {
		if strings.Contains(f.Risk, "a pooler gives each transaction") {
			advice = f.Advice
		}
	}
	check(t, strings.Contains(advice, "default_query_exec_mode=exec"), "the advice is %q", advice)
}

// A server that is away keeps nobody from opening the store, and the listener connects when it is back.
func TestURLWakerOfAServerThatIsAway(t *testing.T) {
	d := onPostgres(t)
	network := servertest.NewProxy(t, d.Server.Addr())
	network.Blackhole()
	s := opened(t, d.DSNAt(network.Addr()))
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := s.Acquire(ctx, request("k", time.Minute))
	check(t, errors.Is(err, driver.ErrUnavailable), "%v", err)
	network.Heal()
	connected(t, s)
	must(t, s.Close())
}
