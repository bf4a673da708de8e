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
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The embedded Redis has a clock: what expires in Redis expires there. The example im proves that a private one is used
// if there is a redis-server, and that it ends.
func TestEmbedded(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("REDIS_URL", "")
	r, err := Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	opts, err := redis.ParseURL(r.URL)
	if err != nil || !strings.Contains(r.Name, "embedded") || r.PID != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	client := redis.NewClient(opts)
	defer client.Close()
	before := client.Time(t.Context()).Val()
	if err := client.Set(t.Context(), "lock:a", "me", 50*time.Millisecond).Err(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); client.Exists(t.Context(), "lock:a").Val() == 1; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the key does not expire")
		}
	}
	if after := client.Time(t.Context()).Val(); !after.After(before) {
		t.Errorf("the time stands still: %v, %v", before, after)
	}
}

// A redis-server that is there and does not work is said to be, at once.
func TestBrokenServer(t *testing.T) {
	bin := t.TempDir()
	script := "#!/bin/sh\necho cannot find my library >&2\nexit 127\n"
	if err := os.WriteFile(filepath.Join(bin, "redis-server"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv("REDIS_URL", "")
	_, err := Open(t.Context())
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"redis-server does not start", "REDIS_URL", "exit status 127", "cannot find my library"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not contain %q", err, want)
		}
	}
}
