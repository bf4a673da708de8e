//go:build unix

package redisstore_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/store/redisstore"
)

// The environment of a process that the tests start: this test binary again.
const (
	envAddr = "KEYTURN_TEST_ADDR"
	envKey  = "KEYTURN_TEST_KEY"
	envTTL  = "KEYTURN_TEST_TTL"
)

// actAsProcess does the work of a started process, if this is one: it takes the key, says so, and keeps it until it is
// killed or its standard input ends.
func actAsProcess() {
	addr := os.Getenv(envAddr)
	if addr == "" {
		return
	}
	orPanic := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	ttl, err := time.ParseDuration(os.Getenv(envTTL))
	orPanic(err)
	store, err := redisstore.New(redis.NewClient(&redis.Options{Addr: addr}))
	orPanic(err)
	eng, err := core.New(announcing{store}, core.WithLogger(slog.New(slog.DiscardHandler)))
	orPanic(err)
	lease, err := eng.Acquire(bg, os.Getenv(envKey), core.WithTTL(ttl))
	orPanic(err)
	fmt.Println("granted", lease.Token())
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

// announcing says when a request is in line.
type announcing struct{ *redisstore.Store }

func (a announcing) Acquire(ctx context.Context, req driver.Request) (driver.Grant, error) {
	var once sync.Once
	onHeld := req.OnHeld
	req.OnHeld = func(held driver.HeldError) {
		once.Do(func() { fmt.Println("queued") })
		onHeld(held)
	}
	return a.Store.Acquire(ctx, req)
}

// process is another process that wants a key.
type process struct {
	t     testing.TB
	cmd   *exec.Cmd
	lines chan string
	done  chan struct{}
}

// startProcess returns when the process has said word.
func startProcess(t testing.TB, server *redistest.Server, key string, ttl time.Duration, word string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envAddr+"="+server.Addr(), envKey+"="+key, envTTL+"="+ttl.String())
	cmd.Stderr = os.Stderr
	must(t, checktest.ErrorOf(cmd.StdinPipe()))
	stdout, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	p := &process{t: t, cmd: cmd, lines: make(chan string, 16), done: make(chan struct{})}
	go func() {
		defer close(p.done)
		defer close(p.lines)
		for in := bufio.NewScanner(stdout); in.Scan(); {
			p.lines <- in.Text()
		}
		_ = cmd.Wait() // killed, in some tests
	}()
	t.Cleanup(p.kill)
	p.says(word, 10*time.Second) // a busy machine takes a while
	return p
}

// kill is kill -9; it returns when the process is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // an error would be that it has ended
	<-p.done
}

// says returns what follows word in the next line, which must come within d.
func (p *process) says(word string, d time.Duration) string {
	p.t.Helper()
	select {
	case line := <-p.lines: // "" if the process has ended
		rest, ok := strings.CutPrefix(line, word)
		if !ok {
			p.t.Fatalf("the process said %q, want %q", line, word)
		}
		return strings.TrimSpace(rest)
	case <-time.After(d):
		p.t.Fatalf("the process did not say %q within %v", word, d)
	}
	return ""
}

// pause is kill -STOP; the process is killed as it is when the test ends.
func pause(t testing.TB, p *process) {
	t.Helper()
	p.signal(syscall.SIGSTOP)
	// The signal is on its way; without this, it could still run for a moment.
	var status syscall.WaitStatus
	_, err := syscall.Wait4(p.cmd.Process.Pid, &status, syscall.WUNTRACED, nil)
	require(t, err == nil && status.Stopped(), "the process does not stop: %v, %v", status, err)
}

func (p *process) signal(sig syscall.Signal) {
	p.t.Helper()
	must(p.t, p.cmd.Process.Signal(sig))
}

// subscribers is the number of connections that listen for messages.
func subscribers(t testing.TB, server *redistest.Server) int {
	t.Helper()
	list, err := server.Client().Do(bg, "client", "list", "type", "pubsub").Text()
	must(t, err)
	return strings.Count(list, "\n")
}

func TestKilledHolderFreesTheKey(t *testing.T) {
	servertest.LongParallel(t)
	const ttl = 500 * time.Millisecond
	server := redistest.Start(t)
	holder := startProcess(t, server, "k", ttl, "granted")
	s := open(t, server.Client())
	w := enqueue(t, s, "next", "k", time.Minute)
	time.Sleep(2 * ttl) // it is alive: it renews
	check(t, !w.IsAnswered(), "the key was taken from a holder that is alive")
	holder.kill()
	w.GrantedIn(soon)
}
