package main_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
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
	lease := sure(engineFor(addr).Acquire(context.Background(), "k"))
	fmt.Println("holds")
	<-lease.Done()
	fmt.Println("lost", work.Monotonic(), errors.Is(lease.Err(), core.ErrLeaseLost))
	os.Exit(0)
}

func sure[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func engineFor(addr string) *core.Engine {
	store := sure(redisstore.New(redis.NewClient(&redis.Options{Addr: addr})))
	return sure(core.New(store, core.WithTTL(partTTL)))
}

// TestPausedHolderLearnsOfItsLoss: a holder is stopped for three TTLs. Another process gets the key
// meanwhile, and the holder knows that it is lost as soon as it wakes.
func TestPausedHolderLearnsOfItsLoss(t *testing.T) {
	t.Parallel()
	servertest.Long(t)
	addr := redistest.Start(t).Addr()
	holder := exec.Command(os.Args[0])
	holder.Env = append(os.Environ(), envPart+"="+addr)
	holder.Stderr = os.Stderr
	out, err := holder.StdoutPipe()
	must(t, err)
	must(t, holder.Start())
	t.Cleanup(func() {
		_ = holder.Process.Kill() // it may have ended
		_ = holder.Wait()
	})
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "holds" {
		t.Fatalf("the holder says %q", lines.Text())
	}
	must(t, holder.Process.Signal(syscall.SIGSTOP))
	stopped := time.Now()
	eng := engineFor(addr)
	defer eng.Close(context.Background())
	lease, err := eng.Acquire(t.Context(), "k")
	must(t, err)
	t.Logf("another process has it %v after the holder stopped", time.Since(stopped))
	time.Sleep(time.Until(stopped.Add(3 * partTTL)))
	woken := work.Monotonic()
	must(t, holder.Process.Signal(syscall.SIGCONT))
	var at int64
	var lost bool
	lines.Scan()
	if _, err := fmt.Sscanf(lines.Text(), "lost %d %t", &at, &lost); err != nil || !lost {
		t.Fatalf("the holder says %q: %v", lines.Text(), err)
	}
	late := time.Duration(at - woken)
	if t.Logf("the holder knew %v after it woke", late); late > time.Second {
		t.Error("that is late")
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Errorf("the other one's lease: %v", err)
	}
}
