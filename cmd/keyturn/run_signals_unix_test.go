//go:build unix

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/observe"
	"github.com/keyturn/keyturn/store/memstore"
)

// Signals for keyturn get to the program.
func TestRunPassesSignals(t *testing.T) {
	store := onRedis(t)
	names := map[string]syscall.Signal{
		"HUP": syscall.SIGHUP, "INT": syscall.SIGINT, "QUIT": syscall.SIGQUIT, "USR1": syscall.SIGUSR1,
		"USR2": syscall.SIGUSR2, "WINCH": syscall.SIGWINCH, "CONT": syscall.SIGCONT,
	}
	var script strings.Builder
	for name := range names {
		fmt.Fprintf(&script, "trap 'echo got %s' %s; ", name, name)
	}
	script.WriteString("trap 'echo got TERM; exit 7' TERM; echo in; while :; do sleep 0.02; done")
	p := command(t, "--store", store, "run", "k", "--", "bash", "-c", script.String()).start()
	p.says("in")
	for name, sig := range names {
		must(t, p.Process.Signal(sig))
		p.says("got " + name)
	}
	must(t, p.Process.Signal(syscall.SIGTERM))
	p.says("got TERM")
	p.ends(7)
}

// A signal ends the wait for the key, and the place in the queue.
func TestRunSignalEndsTheWait(t *testing.T) {
	store := onRedis(t)
	eng := engine(t, store)
	lease := held(t, eng, "k")
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		p := command(t, "--store", store, "run", "k", "--", "echo", "ran").start()
		p.says("waiting for k") // it also says for whom
		p.says("held by")
		must(t, p.Process.Signal(sig))
		p.ends(128 + int(sig))
		check(t, p.stdout.String() == "", "%s", p.stdout.String())
	}
	if info, err := eng.Inspect(t.Context(), "k"); err != nil || len(info.Waiters) > 0 {
		t.Errorf("%+v, %v", info, err)
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

// A signal at the moment of the grant, too, ends the wait: the key is released, and the program does not run.
func TestSignalAtTheGrant(t *testing.T) {
	for name, call := range map[string]func(*app, context.Context, *signals, *core.Engine) error{
		"run": func(a *app, ctx context.Context, s *signals, eng *core.Engine) error {
			return a.run(ctx, s, eng, []core.Claim{core.Exclusive("k")}, &runFlags{path: "/bin/true"})
		},
		"once": func(a *app, ctx context.Context, s *signals, eng *core.Engine) error {
			return a.once(ctx, s, eng, "k", &runFlags{path: "/bin/true"}, false)
		},
	} {
		sigs, ctx := catch(t.Context())
		eng, err := core.New(memstore.New(), core.WithHooks(observe.Hooks{HoldStart: func(of context.Context, _ observe.Lease) context.Context {
			_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
			<-ctx.Done()
			return of
		}}))
		must(t, err)
		status := statusOf(ended(ctx, call(&app{stderr: newSayer(io.Discard)}, ctx, sigs, eng)))
		info, err := eng.Inspect(t.Context(), "k")
		check(t, status == 143 && err == nil && len(info.Holders) == 0 && info.Record == nil, "%s: %d, %+v, %v", name, status, info, err)
		must(t, eng.Close(t.Context()))
	}
}

// A program that was told to ignore a signal, as by nohup, still ignores it under keyturn.
func TestRunNohup(t *testing.T) {
	store := onRedis(t)
	inner := command(t, "--store", store, "run", "k", "--", "sh", "-c", "kill -HUP $$; echo alive")
	p := command(t)
	p.Path, p.Args = "/bin/sh", append([]string{"sh", "-c", `trap "" HUP; exec "$@"`, "sh"}, inner.Args...)
	p.ends(0).says("alive")
}

// state returns the letter of a process: T when it is stopped.
func state(pid int) string {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(stat), ") ")
	return rest[:min(1, len(rest))]
}

// A job that is stopped goes on if its lease is still there.
func TestRunTSTP(t *testing.T) {
	store := onRedis(t)
	p := command(t, "--store", store, "run", "k", "--", "sh", "-c", "echo pid $$; exec sleep 60").start() // a shell that starts programs may be stopped within vfork
	p.says("pid")
	child := pids(p.stdout.String())[0]
	for range 2 {
		must(t, p.Process.Signal(syscall.SIGTSTP))
		await(t, "both are stopped", func() bool { return state(child) == "T" && state(p.Process.Pid) == "T" })
		must(t, p.Process.Signal(syscall.SIGCONT))
		await(t, "both go on", func() bool { return state(child) != "T" && state(p.Process.Pid) != "T" })
	}
	must(t, p.Process.Signal(syscall.SIGTERM))
	p.ends(128 + int(syscall.SIGTERM))
}

// A job that was stopped until its lease was over does not go on.
func TestRunTSTPUntilTheLeaseIsOver(t *testing.T) {
	store := onRedis(t)
	p, file := beating(t, store)
	must(t, p.Process.Signal(syscall.SIGTSTP))
	next := <-nextHolder(t, engine(t, store), "k")
	must(t, p.Process.Signal(syscall.SIGCONT))
	p.ends(76)
	wantDead(t, file, next)
}
