package dbtest

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/internal/sqltest"
	"github.com/keyturn/keyturn/store/storeurl"
)

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
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if server, err := s.Describe().Identity(t.Context()); server != "" && err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatal("no messages arrive")
		}
	}
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
		hold, granted, _ := held(t, a, b, "k")
		must(t, b.Release(t.Context(), hold))
		select {
		case g := <-granted:
			must(t, a.Release(t.Context(), g))
		case <-time.After(10 * time.Second):
			t.Fatalf("%q: no message has reached the waiter", waker)
		}
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
	if !strings.Contains(found.Risk, "pooler") || !strings.Contains(found.Advice, "waker=off") {
		t.Errorf("%+v", found)
	}
	must(t, s.Close()) // nothing writes to the log any more
	if text := log.String(); strings.Count(text, "no messages of PostgreSQL arrive") != 1 || !strings.Contains(text, "pooler") {
		t.Errorf("the log: %s", text)
	}
	quiet := opened(t, pooled+"&waker=off")
	for _, f := range quiet.Describe().Examine(t.Context()) {
		if f.About == "messages" && f.Risk != "" {
			t.Errorf("without a waker: %+v", f)
		}
	}
}

// A server that is away keeps nobody from opening the store, and the listener connects when it is back.
func TestURLWakerOfAServerThatIsAway(t *testing.T) {
	d := onPostgres(t)
	network := servertest.NewProxy(t, d.Server.Addr())
	network.Blackhole()
	s := opened(t, d.DSNAt(network.Addr()))
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := s.Acquire(ctx, request("k", time.Minute)); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("%v", err)
	}
	network.Heal()
	connected(t, s)
	must(t, s.Close())
}
