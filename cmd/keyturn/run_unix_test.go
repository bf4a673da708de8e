//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/servertest"
)

// Each test here is about a line of what consul lock and etcdctl lock get wrong (docs/cli.md), with
// real processes.

const shortTTL = "--ttl=3s"

// beat is a program that writes its heart beat into a file, and cannot be asked to end.
func beat(file string) []string {
	return []string{"sh", "-c", `trap "" TERM INT HUP; while :; do date +%s%N >> ` + file + `; sleep 0.05; done`}
}

// lastBeat returns the time of the last heart beat.
func lastBeat(t *testing.T, file string) time.Time {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Fields(string(text))
	ns, err := strconv.ParseInt(lines[len(lines)-1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return time.Unix(0, ns)
}

// exists reports whether a file has something in it.
func exists(file string) func() bool {
	return func() bool { info, err := os.Stat(file); return err == nil && info.Size() > 0 }
}

// taken waits for the key and returns when it was granted, by the wall clock.
func taken(t *testing.T, eng *core.Engine, key string) time.Time {
	t.Helper()
	lease, err := eng.Acquire(t.Context(), key, core.WithRule("next"))
	if err != nil {
		t.Fatal(err)
	}
	at := time.Now()
	if err := lease.Release(t.Context()); err != nil {
		t.Error(err)
	}
	return at
}

// nextHolder starts to wait for the key at once.
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

// wantDead wants the last heart beat to be before the next holder had the key, and none after it.
func wantDead(t *testing.T, file string, next time.Time) {
	t.Helper()
	if last := lastBeat(t, file); !last.Before(next) {
		t.Errorf("the program lived for %v beside the next holder", last.Sub(next))
	}
	before := lastBeat(t, file)
	time.Sleep(150 * time.Millisecond)
	if !lastBeat(t, file).Equal(before) {
		t.Error("the program still lives")
	}
}

// The statuses of the table, where nothing is broken.
func TestRunStatus(t *testing.T) {
	t.Parallel()
	store := "redis://" + redistest.Start(t).Addr()
	holder, err := engine(t, store).Acquire(t.Context(), "held")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = holder.Release(context.Background()) })
	file := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		status int
		args   string
	}{
		{0, "run a -- true"},
		{3, "run a -- sh -c|exit 3"},
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
		{64, "run a"},
		{64, "run -- true"},
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
			if p.stdout.String() != "" {
				t.Errorf("data: %q", p.stdout.String())
			}
			if c.status >= 64 && c.status < 128 && p.stderr.String() == "" {
				t.Error("no message")
			}
		})
	}
}

// A program that can't be run takes no key, and one that is held by a run shows as such.
func TestRunHoldsTheKey(t *testing.T) {
	t.Parallel()
	store := "redis://" + redistest.Start(t).Addr()
	eng := engine(t, store)
	p := command(t, "--store", store, "run", "a", "b", "--rule", "nightly", "--", "sh", "-c", "echo in; read x; exit 4")
	p.Env = append(p.Env, "TRACEPARENT=00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	stdin, err := p.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.start().says("in")
	for _, key := range []string{"a", "b"} {
		info, err := eng.Inspect(t.Context(), key)
		if err != nil || len(info.Holders) != 1 || info.Holders[0].Rule != "nightly" || !strings.Contains(info.Holders[0].Trace, "4bf92f3577b34da6") {
			t.Errorf("%+v, %v", info, err)
		}
	}
	_ = stdin.Close()
	p.ends(4)
	if info, err := eng.Inspect(t.Context(), "a"); err != nil || len(info.Holders) > 0 {
		t.Errorf("%+v, %v", info, err)
	}
}

// The store falls silent: the program is asked to end in time, and is dead before the next holder.
func TestRunRenewalsFail(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	way := servertest.NewProxy(t, server.Addr())
	file := filepath.Join(t.TempDir(), "beats")
	p := command(t, append([]string{"--store", "redis://" + way.Addr() + "?read_timeout=500ms", "--timeout=1s", "run", "k", shortTTL, "--"}, beat(file)...)...).start()
	await(t, "the program runs", exists(file))
	next := nextHolder(t, engine(t, "redis://"+server.Addr()), "k")
	way.Blackhole()
	wantDead(t, file, <-next)
	p.ends(76)
	p.says("sending SIGTERM, and SIGKILL in")
}

// A program that reacts to the signal has its grace period, and ends before the lease does.
func TestRunGrace(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	way := servertest.NewProxy(t, server.Addr())
	p := command(t, "--store", "redis://"+way.Addr()+"?read_timeout=500ms", "--timeout=1s", "run", "k", shortTTL, "--signal", "USR1", "--",
		"sh", "-c", `trap "echo tidied; exit 0" USR1; echo in; while :; do sleep 0.05; done`).start()
	p.says("in")
	way.Blackhole()
	p.ends(76)
	p.says("tidied")
}

// An operator takes the key: the program is asked to end as soon as its holder learns of it, and is
// killed after the grace period.
func TestRunForced(t *testing.T) {
	t.Parallel()
	store := "redis://" + redistest.Start(t).Addr()
	file := filepath.Join(t.TempDir(), "beats")
	p := command(t, append([]string{"--store", store, "run", "k", shortTTL, "--grace=200ms", "--"}, beat(file)...)...).start()
	await(t, "the program runs", exists(file))
	if _, err := engine(t, store).ForceRelease(t.Context(), "k", "test"); err != nil {
		t.Fatal(err)
	}
	forced := time.Now()
	p.ends(76)
	p.says("forced: test")
	if took := lastBeat(t, file).Sub(forced); took > 5*time.Second { // a third of the TTL, and the grace; the rest is for a busy machine
		t.Errorf("the program lived for %v", took)
	}
}

// pids reads the numbers that a program has written.
func pids(text string) (all []int) {
	for _, n := range regexp.MustCompile(`pid (\d+)`).FindAllStringSubmatch(text, -1) {
		pid, _ := strconv.Atoi(n[1])
		all = append(all, pid)
	}
	return all
}

// gone reports whether the processes have ended. One that nobody asks how it ended counts.
func gone(all []int) bool {
	for _, pid := range all {
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if _, state, ok := strings.Cut(string(stat), ") "); ok && !strings.HasPrefix(state, "Z") {
			return false
		}
		if len(stat) == 0 && syscall.Kill(pid, 0) == nil {
			return false
		}
	}
	return true
}

// family is a program with a child that hears TERM and goes on, and another one.
const family = `sh -c 'trap "echo heard" TERM; while :; do sleep 0.05; done' & echo pid $!; sleep 60 & echo pid $!; echo pid $$; echo in; wait`

// The signals go to the whole group, not to a shell alone.
func TestRunWholeGroup(t *testing.T) {
	t.Parallel()
	store := "redis://" + redistest.Start(t).Addr()
	p := command(t, "--store", store, "run", "k", shortTTL, "--grace=100ms", "--", "sh", "-c", family).start()
	p.says("in")
	all := pids(p.stdout.String())
	if _, err := engine(t, store).ForceRelease(t.Context(), "k", "test"); err != nil {
		t.Fatal(err)
	}
	p.ends(76).says("heard") // TERM first
	if len(all) != 3 || !gone(all) {
		t.Errorf("%v are left", all)
	}
}

// keyturn itself is killed: the whole group goes with it, long before the lease ends.
func TestRunKilled(t *testing.T) {
	t.Parallel()
	store := "redis://" + redistest.Start(t).Addr()
	p := command(t, "--store", store, "run", "k", "--", "sh", "-c", family).start()
	p.says("in")
	all := pids(p.stdout.String())
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	await(t, "the group is gone", func() bool { return gone(all) })
	info, err := engine(t, store).Inspect(t.Context(), "k")
	if err != nil || len(info.Holders) != 1 {
		t.Errorf("the key was free before: %+v, %v", info, err)
	}
	if p.end() != -1 || len(all) != 3 {
		t.Errorf("%v", p.ProcessState)
	}
}

// keyturn itself is stopped, so it neither renews nor kills: the group is dead all the same before the
// next holder has the key.
func TestRunStopped(t *testing.T) {
	t.Parallel()
	store := "redis://" + redistest.Start(t).Addr()
	file := filepath.Join(t.TempDir(), "beats")
	p := command(t, append([]string{"--store", store, "run", "k", shortTTL, "--"}, beat(file)...)...).start()
	await(t, "the program runs", exists(file))
	next := nextHolder(t, engine(t, store), "k")
	if err := p.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	wantDead(t, file, <-next)
	if err := p.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	p.ends(76)
}

// The guard is killed: that is said, and the kernel still ends the program with keyturn.
func TestRunGuardKilled(t *testing.T) {
	t.Parallel()
	store := "redis://" + redistest.Start(t).Addr()
	p := command(t, "--store", store, "run", "k", "--", "sh", "-c", `echo pid $$; echo guard $(cat /proc/$PPID/task/*/children); read x`)
	if _, err := p.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	p.start().says("guard")
	child := pids(p.stdout.String())
	_, children, _ := strings.Cut(p.stdout.String(), "guard ")
	for _, text := range strings.Fields(children) {
		if pid, _ := strconv.Atoi(text); pid != child[0] {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	p.says("the guard has ended")
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	await(t, "the program is gone", func() bool { return gone(child) })
}

// Signals for keyturn get to the program.
func TestRunPassesSignals(t *testing.T) {
	t.Parallel()
	store := "redis://" + redistest.Start(t).Addr()
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
		if err := p.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		p.says("got " + name)
	}
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.says("got TERM")
	p.ends(7)
}

// A signal ends the wait for the key, and the place in the queue.
func TestRunSignalEndsTheWait(t *testing.T) {
	t.Parallel()
	store := "redis://" + redistest.Start(t).Addr()
	eng := engine(t, store)
	lease, err := eng.Acquire(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		p := command(t, "--store", store, "run", "k", "--", "echo", "ran").start()
		p.says("waiting for k") // it also says for whom
		p.says("held by")
		if err := p.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		p.ends(128 + int(sig))
		if p.stdout.String() != "" {
			t.Errorf("%s", p.stdout.String())
		}
	}
	if info, err := eng.Inspect(t.Context(), "k"); err != nil || len(info.Waiters) > 0 {
		t.Errorf("%+v, %v", info, err)
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

// A program that was told to ignore a signal, as by nohup, still ignores it under keyturn.
func TestRunNohup(t *testing.T) {
	t.Parallel()
	store := "redis://" + redistest.Start(t).Addr()
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
	t.Parallel()
	store := "redis://" + redistest.Start(t).Addr()
	p := command(t, "--store", store, "run", "k", "--", "sh", "-c", "echo pid $$; while [ ! -e "+filepath.Join(t.TempDir(), "x")+" ]; do sleep 0.02; done").start()
	p.says("pid")
	child := pids(p.stdout.String())[0]
	for range 2 {
		if err := p.Process.Signal(syscall.SIGTSTP); err != nil {
			t.Fatal(err)
		}
		await(t, "both are stopped", func() bool { return state(child) == "T" && state(p.Process.Pid) == "T" })
		if err := p.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		await(t, "both go on", func() bool { return state(child) != "T" && state(p.Process.Pid) != "T" })
	}
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.ends(128 + int(syscall.SIGTERM))
}

// A job that was stopped until its lease was over does not go on.
func TestRunTSTPUntilTheLeaseIsOver(t *testing.T) {
	t.Parallel()
	store := "redis://" + redistest.Start(t).Addr()
	file := filepath.Join(t.TempDir(), "beats")
	p := command(t, append([]string{"--store", store, "run", "k", shortTTL, "--"}, beat(file)...)...).start()
	await(t, "the program runs", exists(file))
	if err := p.Process.Signal(syscall.SIGTSTP); err != nil {
		t.Fatal(err)
	}
	next := taken(t, engine(t, store), "k")
	if err := p.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	p.ends(76)
	wantDead(t, file, next)
}

// What the program leaves running in its group keeps the key; with --detach it does not.
func TestRunBackground(t *testing.T) {
	t.Parallel()
	store := "redis://" + redistest.Start(t).Addr()
	eng := engine(t, store)
	begin := time.Now()
	p := command(t, "--store", store, "run", "k", "--", "sh", "-c", "sleep 1 & exit 5").start()
	p.says("keep the key")
	if _, err := eng.TryAcquire(t.Context(), "k"); !errors.Is(err, core.ErrHeld) {
		t.Errorf("%v", err)
	}
	p.ends(5)
	if took := time.Since(begin); took < time.Second {
		t.Errorf("the key was free after %v", took)
	}
	p = command(t, "--store", store, "run", "k", "--detach", "--", "sh", "-c", "sleep 60 >/dev/null 2>&1 & echo pid $!; exit 5")
	p.ends(5)
	left := pids(p.stdout.String())
	if gone(left) {
		t.Error("the background process was killed")
	}
	taken(t, eng, "k")
	_ = syscall.Kill(left[0], syscall.SIGKILL)
}

// The program finds its lease, which only keyturn sets, and no open file or connection.
func TestRunEnvironment(t *testing.T) {
	t.Parallel()
	store := "redis://" + redistest.Start(t).Addr()
	p := command(t, "--store", store, "run", "b", "a", "--", "sh", "-c",
		`echo "$KEYTURN_KEY" | tr '\n' ,; echo; echo $KEYTURN_TOKEN; echo $KEYTURN_OWNER; echo "$KEYTURN_GUARD"; for f in /proc/$$/fd/*; do readlink $f; done; echo end; read x`)
	p.Env = append(p.Env, "KEYTURN_TOKEN=1", "KEYTURN_OWNER=me", "KEYTURN_KEY=k")
	stdin, err := p.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.start().says("end\n")
	info, err := engine(t, store).Inspect(t.Context(), "a")
	if err != nil || len(info.Holders) != 1 {
		t.Fatalf("%+v, %v", info, err)
	}
	h := info.Holders[0]
	open, ok := strings.CutPrefix(p.stdout.String(), fmt.Sprintf("a,b,\n%d\n%s\n\n", h.Token, h.Owner))
	if !ok {
		t.Errorf("%q, holder %+v", p.stdout.String(), h)
	}
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

// A run within a run of the same key does not wait for itself, however deep; a stranger waits.
func TestRunNested(t *testing.T) {
	t.Parallel()
	store := "redis://" + redistest.Start(t).Addr()
	self := os.Args[0]
	p := command(t, "--store", store, "run", "a", "--", self, "--store", store, "run", "b", "-n", "--",
		self, "--store", store, "run", "a", "b", "-n", "--", "sh", "-c", "echo in; KEYTURN_LEASES= exec "+self+" --store "+store+" run a -n -- true")
	p.ends(75).says("in")
}

// A wait that ends well is followed by a whole TTL, not by the short time that a waiter gets at first.
func TestRunAfterWait(t *testing.T) {
	t.Parallel()
	store := "redis://" + redistest.Start(t).Addr()
	lease, err := engine(t, store).Acquire(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	p := command(t, "--store", store, "run", "k", "--", "sh", "-c", "sleep 0.5; echo done").start()
	p.says("waiting for k")
	if err := lease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.ends(0).says("done")
}

// --max-hold ends the program, and the key stays held until it is dead.
func TestRunMaxHold(t *testing.T) {
	t.Parallel()
	store := "redis://" + redistest.Start(t).Addr()
	file := filepath.Join(t.TempDir(), "beats")
	p := command(t, append([]string{"--store", store, "run", "k", shortTTL, "--max-hold=1s", "--grace=300ms", "--"}, beat(file)...)...).start()
	await(t, "the program runs", exists(file))
	wantDead(t, file, taken(t, engine(t, store), "k"))
	p.ends(76).says("--max-hold")
}

// A release that is not answered is said; the status stays the program's.
func TestRunReleaseUnanswered(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	way := servertest.NewProxy(t, server.Addr())
	p := command(t, "--store", "redis://"+way.Addr()+"?read_timeout=300ms", "--timeout=1s", "run", "k", "--", "sh", "-c", "echo in; read x; exit 5")
	stdin, err := p.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.start().says("in")
	way.Blackhole()
	_ = stdin.Close()
	p.ends(5).says("the release was not answered")
}

// Shared holders run side by side, and permits bound how many do.
func TestRunModes(t *testing.T) {
	t.Parallel()
	store := "redis://" + redistest.Start(t).Addr()
	for _, mode := range []string{"--shared", "--permits=2"} {
		key := strings.Trim(mode, "-=2")
		var stdin []func()
		for range 2 {
			p := command(t, "--store", store, "run", key, mode, "--", "sh", "-c", "echo in; read x; exit 0")
			in, err := p.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			p.start().says("in")
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
