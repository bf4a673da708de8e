package migrating

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/keyturn/keyturn/core"
)

// The environment of a process that holds a lock until it is killed: this test binary again.
const (
	envPeer  = "KEYTURN_MIGRATING_PEER"
	envSide  = "KEYTURN_MIGRATING_SIDE" // "old" or "new"
	envAddrs = "KEYTURN_MIGRATING_ADDRS"
)

func TestMain(m *testing.M) {
	if os.Getenv(envPeer) != "" {
		holdUntilKilled()
	}
	goleak.VerifyTestMain(m)
}

func holdUntilKilled() {
	p, addrs, ctx := peerNamed(os.Getenv(envPeer)), strings.Split(os.Getenv(envAddrs), ","), context.Background()
	var err error
	if os.Getenv(envSide) == "old" {
		var old library
		if old, err = p.open(addrs, crashTTL); err == nil {
			_, err = old.try(ctx, "7")
		}
	} else {
		var eng *core.Engine
		if eng, _, err = p.engine(addrs); err == nil {
			_, err = p.acquire(ctx, eng, "7", core.WithTTL(crashTTL))
		}
	}
	if err != nil {
		panic(err)
	}
	fmt.Println("held")
	_, _ = io.Copy(io.Discard, os.Stdin) // a test that is gone closes it
	os.Exit(0)
}

// crashTTL is longer than it takes a test to see that the process has the lock.
const crashTTL = 1500 * time.Millisecond

// crash starts a process that takes the lock, and kills it once taken says so.
func crash(t *testing.T, p *peer, side string, addrs []string, taken func() bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), envPeer+"="+p.name, envSide+"="+side, envAddrs+"="+strings.Join(addrs, ","))
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	must(t, err)
	defer stdin.Close()
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	held := err == nil && line == "held\n" && taken()
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // says that it was killed
	if !held {
		t.Fatalf("a process of %s (%s) says %q (%v), and the other side can have the lock", p.name, side, line, err)
	}
}

// TestCrash: a process that is killed, of either side, keeps the other out for its TTL at most.
func TestCrash(t *testing.T) {
	beside(t, crashTTL, func(t *testing.T, p *peer, addrs []string, old library, eng *core.Engine) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*soon)
		defer cancel()
		crash(t, p, "old", addrs, func() bool {
			_, err := p.acquire(ctx, eng, "7", core.WithFailFast())
			return errors.Is(err, core.ErrHeld)
		})
		lease, err := p.acquire(ctx, eng, "7", core.WithMaxWait(soon))
		if err != nil {
			t.Fatalf("keyturn after a crash of %s: %v", p.name, err)
		}
		must(t, lease.Release(ctx))
		crash(t, p, "new", addrs, func() bool {
			_, err := old.try(ctx, "7")
			return errors.Is(err, errTaken)
		})
		for since := time.Now(); ; time.Sleep(crashTTL / 20) {
			l, err := old.try(ctx, "7")
			if err == nil {
				must(t, l.release(ctx))
				return
			}
			if !errors.Is(err, errTaken) || time.Since(since) > soon {
				t.Fatalf("%s after a crash of keyturn: %v", p.name, err)
			}
		}
	})
}
