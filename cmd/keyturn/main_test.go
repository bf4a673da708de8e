package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/store/storeurl"
)

var must, check, await = checktest.Must, checktest.That, checktest.Eventually

const asProgram = "KEYTURN_TEST_AS_PROGRAM"

// TestMain has the test binary be the program, so that a test is about real processes under the race detector.
func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	catchIgnored()
	os.Exit(m.Run())
}

// catchIgnored has the processes of the tests start with the signals as they are by default. Under
// nohup, or in the background of a script, some are ignored, and keyturn leaves it at that.
func catchIgnored() {
	for _, sig := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT} {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
}

type process struct {
	*exec.Cmd
	t              *testing.T
	stdout, stderr ruletest.Buffer
}

// command prepares keyturn with these arguments. Every variable of its own that the environment has is taken out.
func command(t *testing.T, args ...string) *process {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	p := &process{Cmd: exec.CommandContext(ctx, os.Args[0], args...), t: t}
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "KEYTURN_") && !strings.HasPrefix(v, "TRACEPARENT=") {
			p.Env = append(p.Env, v)
		}
	}
	// The race detector makes every process sleep for a second before it ends.
	p.Env = append(p.Env, asProgram+"=1", "GORACE=atexit_sleep_ms=0", "NO_COLOR=1")
	p.Stdout, p.Stderr = &p.stdout, &p.stderr
	p.WaitDelay = 5 * time.Second
	return p
}

func (p *process) start() *process {
	p.t.Helper()
	if err := p.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		if p.ProcessState == nil {
			_ = p.Process.Kill()
			_ = p.Wait()
		}
	})
	return p
}

// end waits for the end of the process and returns its status; -1 if a signal has killed it.
func (p *process) end() int {
	p.t.Helper()
	err := p.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		p.t.Fatalf("%v: %v\n%s", p.Args, err, p.stderr.String())
	}
	return p.ProcessState.ExitCode()
}

// ends wants the status of a whole run.
func (p *process) ends(status int) *process {
	p.t.Helper()
	if p.ProcessState == nil && p.Process == nil {
		p.start()
	}
	if got := p.end(); got != status {
		p.t.Errorf("%v: status %d, want %d\n%s%s", p.Args[1:], got, status, p.stdout.String(), p.stderr.String())
	}
	return p
}

func (p *process) says(text string) {
	p.t.Helper()
	await(p.t, "it says "+text, func() bool {
		return strings.Contains(p.stdout.String(), text) || strings.Contains(p.stderr.String(), text)
	})
}

func (p *process) typed() io.WriteCloser {
	p.t.Helper()
	in, err := p.StdinPipe()
	must(p.t, err)
	p.start()
	return in
}

// onRedis returns the URL of a Redis of its own, for a test that runs beside others.
func onRedis(t *testing.T) (store string) {
	t.Helper()
	t.Parallel()
	return "redis://" + redistest.Start(t).Addr()
}

func held(t *testing.T, eng *core.Engine, key string) *core.Lease {
	t.Helper()
	lease, err := eng.Acquire(t.Context(), key)
	must(t, err)
	return lease
}

func engine(t *testing.T, url string) *core.Engine {
	t.Helper()
	st, err := storeurl.Open(t.Context(), url)
	must(t, err)
	eng, err := core.New(st, core.WithLogger(slog.New(slog.DiscardHandler)))
	must(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // what is held is taken away at once
		_ = eng.Close(ctx)
	})
	return eng
}
