//go:build unix

package redistest

import (
	"runtime"
	"strings"
	"testing"
	"time"
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

func TestStartFailsWithServersReason(t *testing.T) {
	message := fatal(t, func(t testing.TB) { Start(t, "--no-such-option", "1") })
	check(t, strings.Contains(message, "no-such-option"), "%q does not say what the server said", message)
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
		check(t, err == nil && got == step.want, "%v: %q, %v; want %q", step.args, got, err, step.want)
	}
	got, err := s.CLI("NOSUCH")
	check(t, err == nil && strings.HasPrefix(got, "ERR"), "an unknown command: %q, %v", got, err)
	other := s.Database(t, 7)
	got, err = other.CLI("SET", "lock:k", "theirs", "NX")
	check(t, got == "OK" && other.Client().Get(t.Context(), "lock:k").Val() == "theirs", "in another database: %q, %v", got, err)
	n := s.Client().DBSize(t.Context()).Val()
	check(t, n == 0, "%d keys came from another database", n)
	s.Kill()
	got, err = s.CLI("PING")
	check(t, err != nil, "a killed server answers %q", got)
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
		check(t, counts[name] == want, "%s ran %d times, want %d", name, counts[name], want)
	}
	first := s.CommandCount(t)
	second := s.CommandCount(t)
	check(t, first >= 5 && second == first, "counted %d, then %d: an idle server counts on", first, second)
}
