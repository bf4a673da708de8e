package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/console"
	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/redistest"
)

// TestConsoleIsCheap: 100 000 held keys and 20 viewers cost the server 20 commands a second. (What they cost
// the process is tested in package console.)
func TestConsoleIsCheap(t *testing.T) {
	t.Parallel()
	const (
		keys     = 100_000
		viewers  = 20
		commands = 20 // a second
		measured = 4 * time.Second
	)
	server := redistest.Start(t)
	client := server.Client()
	s := open(t, client)
	holdMany(t, client, s, keys)
	eng, err := core.New(s)
	if err != nil {
		t.Fatal(err)
	}
	page, err := console.New(eng)
	if err != nil {
		t.Fatal(err)
	}
	viewing, end := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for i := range viewers {
		path := []string{"/events?page=locks", "/events?page=locks&prefix=user:1", "/events?page=waits", "/events?page=hot", "/events?page=key&k=user:77"}[i%5]
		r := httptest.NewRequestWithContext(viewing, http.MethodGet, path, nil)
		all.Go(func() { page.ServeHTTP(viewer{make(http.Header)}, r) })
	}
	time.Sleep(1500 * time.Millisecond) // the first looks
	count := func() (n int64) {
		all := server.Commands(t)
		return all["evalsha"] + all["eval"] + all["scan"] // the others belong to scripts
	}
	first, begin := count(), time.Now()
	time.Sleep(measured)
	if rate := float64(count()-first) / time.Since(begin).Seconds(); rate > commands || rate < 1 {
		t.Errorf("%.1f commands a second, want %d", rate, commands)
	} else {
		t.Logf("%.1f commands a second", rate)
	}
	end()
	all.Wait()
	if err := errors.Join(page.Close(), eng.Close(context.Background())); err != nil {
		t.Error(err)
	}
}

// viewer reads a stream and forgets it.
type viewer struct{ header http.Header }

func (v viewer) Header() http.Header         { return v.header }
func (v viewer) Write(b []byte) (int, error) { return len(b), nil }
func (v viewer) WriteHeader(int)             {}
func (v viewer) Flush()                      {}

// holdMany has many keys be held, by copies of one lease with owners of their own.
func holdMany(t *testing.T, client redis.UniversalClient, s driver.Store, n int) {
	t.Helper()
	ctx := context.Background()
	owner := func(i int) string { return fmt.Sprintf("host-%d/%d/1/t0abcd/%032x", i%50, i%50, i) }
	if _, err := s.Acquire(ctx, driver.Request{
		Owner: owner(0), Claims: []driver.Claim{driver.Exclusive("user:0")}, TTL: time.Hour, Rule: "Users.SetStatus",
		Trace: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
	}); err != nil {
		t.Fatal(err)
	}
	value, err := client.Get(ctx, "lock:user:0").Result()
	if err != nil {
		t.Fatal(err)
	}
	for i := 1; i < n; {
		pipe := client.Pipeline()
		for range min(5000, n-i) {
			pipe.Set(ctx, fmt.Sprint("lock:user:", i), strings.Replace(value, owner(0), owner(i), 1), time.Hour)
			i++
		}
		if _, err := pipe.Exec(ctx); err != nil {
			t.Fatal(err)
		}
	}
}
