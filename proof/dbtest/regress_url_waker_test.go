package dbtest

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/sqltest"
	"github.com/keyturn/keyturn/store/storeurl"
)

// opened opens the store of a URL that the test closes.
func opened(t *testing.T, text string) driver.Store {
	t.Helper()
	s, err := storeurl.Open(t.Context(), text)
	if err != nil {
		t.Fatal(err)
	}
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
	t.Parallel()
	d := sqltest.Postgres(t)
	migrate(t, d)
	b := opened(t, urlOf(d))
	took := make(map[string]time.Duration)
	for _, waker := range []string{"", "&waker=on", "&waker=off"} {
		a := opened(t, urlOf(d)+"&poll=1m&waiter_lease=3m"+waker)
		if wakes := a.Describe().OnWanted != nil; wakes != (waker != "&waker=off") {
			t.Errorf("%q: a waker: %v", waker, wakes)
		} else if wakes {
			connected(t, a)
		}
		hold, granted := held(t, a, b)
		time.Sleep(3 * time.Second) // without a waker, the next look is 2 s later
		began := time.Now()
		if err := b.Release(t.Context(), hold); err != nil {
			t.Fatal(err)
		}
		if err := a.Release(t.Context(), <-granted); err != nil {
			t.Error(err)
		}
		took[waker] = time.Since(began)
	}
	if looked := took["&waker=off"]; took[""] > looked/2 || took["&waker=on"] > looked/2 {
		t.Errorf("a hand-over took %v", took)
	}
}

// logged has what the program's logger was told.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Behind a pooler no messages arrive: the store works, and says so.
func TestURLWakerBehindAPooler(t *testing.T) { // not parallel: it is about the program's logger
	d := sqltest.Postgres(t)
	migrate(t, d)
	log, before := new(logged), slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(log, nil)))
	t.Cleanup(func() { slog.SetDefault(before) })
	pooled := "postgres://keyturn@" + d.Bouncer(t).Addr() + strings.TrimPrefix(urlOf(d), "postgres://keyturn@"+d.Server.Addr()) + "&default_query_exec_mode=exec"
	s := opened(t, pooled)
	g, err := s.Acquire(t.Context(), request("k", time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Release(t.Context(), g); err != nil {
		t.Error(err)
	}
	var found driver.Finding
	for _, f := range s.Describe().Examine(t.Context()) {
		if f.About == "messages" {
			found = f
		}
	}
	if !strings.Contains(found.Risk, "pooler") || !strings.Contains(found.Advice, "waker=off") {
		t.Errorf("%+v", found)
	}
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
	t.Parallel()
	server := sqltest.StartPostgres(t)
	d := server.Database(t)
	migrate(t, d)
	server.Pause()
	s := opened(t, urlOf(d))
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := s.Acquire(ctx, request("k", time.Minute)); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("%v", err)
	}
	server.Resume()
	connected(t, s)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
