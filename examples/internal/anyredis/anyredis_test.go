//go:build unix

package anyredis

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/keyturn/keyturn/internal/checktest"
)

var must = checktest.Must

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T) (*Redis, *redis.Client) {
	t.Helper()
	t.Setenv("REDIS_URL", "")
	r, err := Open(t.Context())
	must(t, err)
	t.Cleanup(r.Close)
	opts, err := redis.ParseURL(r.URL)
	must(t, err)
	client := redis.NewClient(opts)
	t.Cleanup(func() { _ = client.Close() })
	return r, client
}

func TestPrivate(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	r, client := open(t)
	must(t, client.Ping(t.Context()).Err())
	if !strings.HasPrefix(r.Name, "a private ") || r.PID == 0 {
		t.Errorf("%+v", r)
	}
	r.Close()
	if err := client.Ping(t.Context()).Err(); err == nil {
		t.Error("it is still there")
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

// The embedded Redis has a clock: what expires in Redis expires there.
func TestEmbedded(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	r, client := open(t)
	if !strings.Contains(r.Name, "embedded") || r.PID != 0 || r.String() != r.Name {
		t.Errorf("%+v", r)
	}
	must(t, client.Set(t.Context(), "lock:a", "me", 50*time.Millisecond).Err())
	for end := time.Now().Add(10 * time.Second); client.Exists(t.Context(), "lock:a").Val() == 1; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the key does not expire")
		}
	}
	before, err := client.Time(t.Context()).Result()
	must(t, err)
	if after := client.Time(t.Context()).Val(); !after.After(before) {
		t.Errorf("the time stands still: %v, %v", before, after)
	}
}

// A redis-server that is there and does not work is said to be, at once.
func TestBrokenServer(t *testing.T) {
	bin := t.TempDir()
	script := "#!/bin/sh\necho cannot find my library >&2\nexit 127\n"
	must(t, os.WriteFile(filepath.Join(bin, "redis-server"), []byte(script), 0o755))
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv("REDIS_URL", "")
	_, err := Open(t.Context())
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"redis-server does not start", "REDIS_URL", "cannot find my library"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not contain %q", err, want)
		}
	}
}
