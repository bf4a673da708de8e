//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/servertest"
)

const shortTTL = "--ttl=3s"

func exists(file string) func() bool {
	return func() bool { info, err := os.Stat(file); return err == nil && info.Size() > 0 }
}

// nextHolder waits for the key, and tells when it was granted, by the wall clock.
func nextHolder(t *testing.T, eng *core.Engine, key string) <-chan time.Time {
	t.Helper()
	at := make(chan time.Time, 1)
	go func() {
		lease, err := eng.Acquire(t.Context(), key)
		if err != nil {
			t.Error(err)
			close(at)
			return
		}
		at <- time.Now()
		_ = lease.Release(t.Context())
	}()
	return at
}

// The statuses of the table, where nothing is broken.
func TestRunStatus(t *testing.T) {
	store := onRedis(t)
	holder, err := engine(t, store).Acquire(t.Context(), "held")
	must(t, err)
	t.Cleanup(func() { _ = holder.Release(context.Background()) })
	file := filepath.Join(t.TempDir(), "plain")
	must(t, os.WriteFile(file, nil, 0o600))
	for _, c := range []struct {
		status int
		args   string
	}{
		{0, "run a -- true"},
		{3, "run a -- sh -c|exit 3"},
		{3, "run -- -a --b -- sh -c|exit 3"},
		{128 + 9, "run a -- sh -c|kill -9 $$"},
		{75, "run held -n -- true"},
		{75, "run held --wait 1s -- true"},
		{0, "run held -n -E 0 -- true"},
		{255, "run held -n --conflict-exit-code 255 -- true"},
		{75, "run a held b --wait 0 -- true"},
		{126, "run a -- " + file},
		{127, "run a -- /nosuch/program"},
		{127, "run a -- nosuchprogram"},
		{64, "run held -n -E 256 -- true"},
		{64, "run a -n --wait 3s -- true"},
		{64, "run a --wait soon -- true"},
		{64, "run a --grace 11s -- true"},
		{64, "run a --signal NO -- true"},
		{64, "run a --ttl 1ns -- true"},
		{64, "run a{ -- true"},
		{64, "run a a -- true"},
		{64, "run a --shared --permits 2 -- true"},
		{64, "run a --permits 0 -- true"},
		{64, "run a"},
		{64, "run -- true"},
		{64, "run -- a --"},
		{64, "run a --nosuch -- true"},
		{69, "run a --store redis://127.0.0.1:1?max_retries=-1 --wait 1s -- true"},
		{78, "run a --store nosuch: -- true"},
		{78, "run a --store= -- true"},
	} {
		t.Run(c.args, func(t *testing.T) {
			t.Parallel()
			var args []string
			for i, part := range strings.Split(c.args, "|") { // what follows is one argument
				if i == 0 {
					args = append(args, strings.Fields(part)...)
				} else {
					args = append(args, part)
				}
			}
			p := command(t, args...)
			p.Env = append(p.Env, "KEYTURN_STORE="+store)
			p.ends(c.status)
			check(t, p.stdout.String() == "", "data: %q", p.stdout.String())
			if c.status >= 64 && c.status < 128 && p.stderr.String() == "" {
				t.Error("no message")
			}
		})
	}
}

// The grace period of a run within a run of its key fits the TTL of the outer one. A third of its own killed the program
// at once, also where another key has that.
func TestRunWithinAShortTTL(t *testing.T) {
	store := onRedis(t)
	for _, more := range []string{"--quiet", "--grace=10s", "b"} {
		command(t, "--store", store, "run", "a", shortTTL, "--", os.Args[0], "--store", store, "run", "a", more, "--", "true").ends(0)
	}
}

// A program that can't be run takes no key, and one that is held by a run shows as such.
func TestRunHoldsTheKey(t *testing.T) {
	store := onRedis(t)
	eng := engine(t, store)
	p := command(t, "--store", store, "run", "a", "b", "--rule", "nightly", "--", "sh", "-c", "echo in; read x; exit 4")
	p.Env = append(p.Env, "TRACEPARENT=00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	stdin := p.typed()
	p.says("in")
	for _, key := range []string{"a", "b"} {
		info, err := eng.Inspect(t.Context(), key)
		check(t, err == nil && len(info.Holders) == 1 && info.Holders[0].Rule == "nightly" && strings.Contains(info.Holders[0].Trace, "4bf92f3577b34da6"), "%+v, %v", info, err)
	}
	_ = stdin.Close()
	p.ends(4)
	if info, err := eng.Inspect(t.Context(), "a"); err != nil || len(info.Holders) > 0 {
		t.Errorf("%+v, %v", info, err)
	}
}

// What the program leaves running in its group keeps the key; with --detach it does not.
func TestRunBackground(t *testing.T) {
	store := onRedis(t)
	eng := engine(t, store)
	begin := time.Now()
	p := command(t, "--store", store, "run", "k", "--", "sh", "-c", "sleep 1 & exit 5").start()
	p.says("keep the key")
	_, err := eng.TryAcquire(t.Context(), "k")
	check(t, errors.Is(err, core.ErrHeld), "%v", err)
	p.ends(5)
	took := time.Since(begin)
	check(t, took >= time.Second, "the key was free after %v", took)
	p = command(t, "--store", store, "run", "k", "--detach", "--", "sh", "-c", "sleep 60 >/dev/null 2>&1 & echo pid $!; exit 5")
	p.ends(5)
	left := pids(p.stdout.String())
	check(t, !gone(left), "the background process was killed")
	<-nextHolder(t, eng, "k")
	_ = syscall.Kill(left[0], syscall.SIGKILL)
}

// The program finds its lease, which only keyturn sets, and no open file or connection.
func TestRunEnvironment(t *testing.T) {
	store := onRedis(t)
	p := command(t, "--store", store, "run", "b", "a", "--", "sh", "-c",
		`echo "$KEYTURN_KEY" | tr '\n' ,; echo; echo $KEYTURN_TOKEN; echo $KEYTURN_OWNER; echo "$KEYTURN_GUARD"; for f in /proc/$$/fd/*; do readlink $f; done; echo end; read x`)
	p.Env = append(p.Env, "KEYTURN_TOKEN=1", "KEYTURN_OWNER=me", "KEYTURN_KEY=k")
	stdin := p.typed()
	p.says("end\n")
	info, err := engine(t, store).Inspect(t.Context(), "a")
	if err != nil || len(info.Holders) != 1 {
		t.Fatalf("%+v, %v", info, err)
	}
	h := info.Holders[0]
	open, ok := strings.CutPrefix(p.stdout.String(), fmt.Sprintf("a,b,\n%d\n%s\n\n", h.Token, h.Owner))
	check(t, ok, "%q, holder %+v", p.stdout.String(), h)
	theirs := make(map[string]bool) // what the test's own caller has left open
	links, _ := filepath.Glob("/proc/self/fd/*")
	for _, link := range links {
		target, _ := os.Readlink(link)
		theirs[target] = true
	}
	for i, file := range strings.Fields(open) {
		if i > 2 && !theirs[file] && regexp.MustCompile(`^(socket|pipe|anon)`).MatchString(file) {
			t.Errorf("the program has %s", file)
		}
	}
	_ = stdin.Close()
	p.ends(1)
}

// Shared holders run side by side, and permits bound how many do.
func TestRunModes(t *testing.T) {
	servertest.Long(t)
	store := onRedis(t)
	for _, mode := range []string{"--shared", "--permits=2"} {
		key := strings.Trim(mode, "-=2")
		var stdin []func()
		for range 2 {
			p := command(t, "--store", store, "run", key, mode, "--", "sh", "-c", "echo in; read x; exit 0")
			in := p.typed()
			p.says("in")
			stdin = append(stdin, func() { _ = in.Close(); p.ends(0) })
		}
		if mode != "--shared" {
			command(t, "--store", store, "run", key, mode, "-n", "--", "true").ends(75)
		}
		command(t, "--store", store, "run", key, "-n", "--", "true").ends(75)
		for _, end := range stdin {
			end()
		}
	}
}
