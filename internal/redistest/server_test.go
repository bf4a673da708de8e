//go:build unix

package redistest

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Long enough for anything on this machine, for what should happen.
const patience = 5 * time.Second

// fatalTB is a test that records how it failed.
type fatalTB struct {
	testing.TB
	message string
}

func (f *fatalTB) Helper() {}

func (f *fatalTB) Fatalf(format string, args ...any) {
	f.message = strings.TrimSpace(strings.ReplaceAll(format, "%v", "")) + " "
	for _, arg := range args {
		if err, ok := arg.(error); ok {
			f.message += err.Error()
		}
	}
	runtime.Goexit()
}

// fatal returns what fn fails its test with, or "".
func fatal(t *testing.T, fn func(t testing.TB)) string {
	f := &fatalTB{TB: t}
	done := make(chan struct{})
	go func() { // Goexit ends a goroutine
		defer close(done)
		fn(f)
	}()
	<-done
	return f.message
}

func ping(t *testing.T, c *redis.Client) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return c.Ping(ctx).Err()
}

func TestStartServesUntilTheTestEnds(t *testing.T) {
	var pid int
	var client *redis.Client
	t.Run("serves", func(t *testing.T) {
		a, b := Start(t), Start(t)
		if a.Addr() == b.Addr() {
			t.Fatalf("two servers at %s", a.Addr())
		}
		for _, s := range []*Server{a, b} {
			if err := ping(t, s.Client()); err != nil {
				t.Error(err)
			}
		}
		client, pid = a.Client(), a.PID()
	})
	if err := ping(t, client); !errors.Is(err, redis.ErrClosed) {
		t.Errorf("the client is not closed: %v", err)
	}
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process %d is still there: %v", pid, err)
	}
}

func TestStartPassesArgumentsAndKeepsNoData(t *testing.T) {
	c := Start(t, "--maxmemory", "10mb").Client()
	got, err := c.ConfigGet(t.Context(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"maxmemory": "10485760", "save": "", "appendonly": "no", "bind": "127.0.0.1"}
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s is %q, want %q", name, got[name], value)
		}
	}
}

func TestStartFailsWithoutServer(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	message := fatal(t, func(t testing.TB) { Start(t) })
	for _, want := range []string{"redis-server", "valkey-server", "make test"} {
		if !strings.Contains(message, want) {
			t.Errorf("%q does not name %s", message, want)
		}
	}
}

func TestStartFailsWithServersReason(t *testing.T) {
	message := fatal(t, func(t testing.TB) { Start(t, "--no-such-option", "1") })
	if !strings.Contains(message, "no-such-option") {
		t.Errorf("%q does not say what the server said", message)
	}
}

func TestRestartLosesDataAndKeepsAddress(t *testing.T) {
	s := Start(t)
	addr := s.Addr()
	if err := s.Client().Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	s.Restart(t)
	if s.Addr() != addr {
		t.Errorf("moved from %s to %s", addr, s.Addr())
	}
	if err := s.Client().Get(t.Context(), "k").Err(); !errors.Is(err, redis.Nil) {
		t.Errorf("the key's read gives %v, want redis.Nil", err)
	}
}

func TestCLIIsAForeignClient(t *testing.T) {
	s := Start(t)
	for _, step := range []struct {
		args []string
		want string
	}{
		{[]string{"SET", "lock:k", "uuid", "NX", "PX", "60000"}, "OK"},
		{[]string{"SET", "lock:k", "other", "NX", "PX", "60000"}, ""},
		{[]string{"GET", "lock:k"}, "uuid"},
		{[]string{"DEL", "lock:k"}, "1"},
	} {
		got, err := s.CLI(step.args...)
		if err != nil || got != step.want {
			t.Errorf("%v: %q, %v; want %q", step.args, got, err, step.want)
		}
	}
	if got, err := s.CLI("NOSUCH"); err != nil || !strings.HasPrefix(got, "ERR") {
		t.Errorf("an unknown command: %q, %v", got, err)
	}
	s.Kill()
	if got, err := s.CLI("PING"); err == nil {
		t.Errorf("a killed server answers %q", got)
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := s.CLI("PING"); err == nil || !strings.Contains(err.Error(), "redis-cli") {
		t.Errorf("without the program: %v", err)
	}
}

func TestCommandsCountsClientsButNotItself(t *testing.T) {
	s := Start(t)
	c := s.Client()
	for range 3 {
		c.Set(t.Context(), "k", "v", 0)
	}
	c.Eval(t.Context(), "return redis.call('get', KEYS[1])", []string{"k"})

	counts := s.Commands(t)
	for name, want := range map[string]int64{"set": 3, "eval": 1, "get": 1, "info": 0} {
		if counts[name] != want {
			t.Errorf("%s ran %d times, want %d", name, counts[name], want)
		}
	}
	first := s.CommandCount(t)
	if second := s.CommandCount(t); first < 5 || second != first {
		t.Errorf("counted %d, then %d: an idle server counts on", first, second)
	}
}

func TestCommandsFailsWithoutServer(t *testing.T) {
	for name, breakIt := range map[string]func(*Server){
		"down":   func(s *Server) { s.Kill() },
		"locked": func(s *Server) { s.CLI("CONFIG", "SET", "requirepass", "secret") },
	} {
		t.Run(name, func(t *testing.T) {
			s := Start(t)
			breakIt(s)
			if fatal(t, func(t testing.TB) { s.Commands(t) }) == "" {
				t.Error("the test did not fail")
			}
		})
	}
}
