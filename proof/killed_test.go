package main_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/proof/work"
	"github.com/keyturn/keyturn/store/redisstore"
)

// envPart makes this test binary a holder on the Redis with that address.
const envPart = "KEYTURN_PROOF_HOLDER"

// partTTL is that of the holder's lease.
const partTTL = 500 * time.Millisecond

// playPart ends the program, if it is to be the holder. It says when it has the lease, and when it learns that
// the lease is lost, by the clock of all processes.
func playPart() {
	addr := os.Getenv(envPart)
	if addr == "" {
		return
	}
	lease := must(engineFor(addr).Acquire(context.Background(), "k"))
	fmt.Println("holds")
	<-lease.Done()
	fmt.Println("lost", work.Monotonic(), errors.Is(lease.Err(), core.ErrLeaseLost))
	os.Exit(0)
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func engineFor(addr string) *core.Engine {
	store := must(redisstore.New(redis.NewClient(&redis.Options{Addr: addr})))
	return must(core.New(store, core.WithTTL(partTTL)))
}

// player is the holder's process.
type player struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines *bufio.Scanner
}

func play(t *testing.T, addr string) *player {
	t.Helper()
	p := &player{t: t, cmd: exec.Command(os.Args[0])}
	p.cmd.Env = append(os.Environ(), envPart+"="+addr)
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.lines = bufio.NewScanner(out)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it may have ended
		_ = p.cmd.Wait()
	})
	return p
}

// says waits for a line that begins with word, and returns the rest.
func (p *player) says(word string) string {
	p.t.Helper()
	if !p.lines.Scan() {
		p.t.Fatalf("the process ended before it said %q", word)
	}
	rest, ok := strings.CutPrefix(p.lines.Text(), word)
	if !ok {
		p.t.Fatalf("the process said %q, want %q", p.lines.Text(), word)
	}
	return rest
}

func (p *player) signal(sig syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Fatal(err)
	}
}

// TestPausedHolderLearnsOfItsLoss: a holder is stopped for three TTLs. Another process gets the key
// meanwhile, and the holder knows that it is lost as soon as it wakes.
func TestPausedHolderLearnsOfItsLoss(t *testing.T) {
	t.Parallel()
	servertest.Long(t)
	addr := redistest.Start(t).Addr()
	holder := play(t, addr)
	holder.says("holds")
	holder.signal(syscall.SIGSTOP)
	stopped := time.Now()
	eng := engineFor(addr)
	defer eng.Close(context.Background())
	lease, err := eng.Acquire(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("another process has it %v after the holder stopped", time.Since(stopped))
	time.Sleep(time.Until(stopped.Add(3 * partTTL)))
	woken := work.Monotonic()
	holder.signal(syscall.SIGCONT)
	var at int64
	var lost bool
	if _, err := fmt.Sscan(holder.says("lost"), &at, &lost); err != nil || !lost {
		t.Fatalf("lost: %v, %v", lost, err)
	}
	t.Logf("the holder knew %v after it woke", time.Duration(at-woken))
	if late := time.Duration(at - woken); late > time.Second {
		t.Errorf("the holder knew %v after it woke", late)
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Errorf("the other one's lease: %v", err)
	}
}
