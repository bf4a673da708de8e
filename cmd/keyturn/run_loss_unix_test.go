//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/servertest"
)

// beating runs a program that writes its heart beat into a file, and cannot be asked to end.
func beating(t *testing.T, store string, flags ...string) (p *process, file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "beats")
	args := append([]string{"--store", store, "run", "k", shortTTL}, flags...)
	p = command(t, append(args, "--", "sh", "-c", `trap "" TERM INT HUP; while :; do date +%s%N >> `+file+`; sleep 0.05; done`)...).start()
	await(t, "the program runs", exists(file))
	return p, file
}

func lastBeat(t *testing.T, file string) time.Time {
	t.Helper()
	text, err := os.ReadFile(file)
	must(t, err)
	lines := strings.Fields(string(text))
	ns, err := strconv.ParseInt(lines[len(lines)-1], 10, 64)
	must(t, err)
	return time.Unix(0, ns)
}

// wantDead wants the last heart beat to be before the next holder had the key, and none after it.
func wantDead(t *testing.T, file string, next time.Time) {
	t.Helper()
	last := lastBeat(t, file)
	check(t, last.Before(next), "the program lived for %v beside the next holder", last.Sub(next))
	before := lastBeat(t, file)
	time.Sleep(150 * time.Millisecond)
	check(t, lastBeat(t, file).Equal(before), "the program still lives")
}

// The store falls silent: the program is asked to end in time, and is dead before the next holder.
func TestRunRenewalsFail(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	way := servertest.NewProxy(t, server.Addr())
	p, file := beating(t, "redis://"+way.Addr()+"?read_timeout=500ms", "--timeout=1s")
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
const family = `sleep 60 & echo pid $!; echo pid $$; sh -c 'trap "echo heard" TERM; echo pid $$; echo in; while :; do sleep 0.05; done' & wait`

// The signals go to the whole group, not to a shell alone.
func TestRunWholeGroup(t *testing.T) {
	store := onRedis(t)
	p := command(t, "--store", store, "run", "k", shortTTL, "--grace=900ms", "--", "sh", "-c", family).start()
	p.says("in")
	all := pids(p.stdout.String())
	must(t, checktest.ErrorOf(engine(t, store).ForceRelease(t.Context(), "k", "test")))
	p.ends(76).says("heard") // TERM first
	check(t, len(all) == 3 && gone(all), "%v are left", all)
}

// keyturn itself is stopped, so it neither renews nor kills: the group is dead all the same before the
// next holder has the key.
func TestRunStopped(t *testing.T) {
	store := onRedis(t)
	p, file := beating(t, store)
	next := nextHolder(t, engine(t, store), "k")
	must(t, p.Process.Signal(syscall.SIGSTOP))
	wantDead(t, file, <-next)
	must(t, p.Process.Signal(syscall.SIGCONT))
	p.ends(76)
	said := p.stderr.String()
	check(t, !strings.Contains(said, "does not answer renewals"), "the store was well: %s", said)
}

// The guard outlives a signal to all processes. When it is killed, another one takes its place: with keyturn itself
// the whole group ends, long before the lease does, while the kernel would end the program alone.
func TestRunGuardKilled(t *testing.T) {
	store := onRedis(t)
	p := command(t, "--store", store, "run", "k", "--", "sh", "-c", `echo guard $(cat /proc/$PPID/task/*/children) .; `+family).start()
	p.says("in\n")
	all := pids(p.stdout.String())
	_, children, _ := strings.Cut(p.stdout.String(), "guard ")
	children, _, _ = strings.Cut(children, " .")
	guard := 0
	for _, text := range strings.Fields(children) {
		if pid, _ := strconv.Atoi(text); !slices.Contains(all, pid) { // the other one is the program
			guard = pid
		}
	}
	await(t, "the guard ignores a signal to all processes", func() bool {
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", guard))
		mask := regexp.MustCompile(`SigIgn:\s*(\w+)`).FindStringSubmatch(string(status))
		if mask == nil {
			return false
		}
		ignored, _ := strconv.ParseUint(mask[1], 16, 64)
		return ignored>>(syscall.SIGTERM-1)&1 == 1
	})
	must(t, syscall.Kill(guard, syscall.SIGKILL))
	p.says("another one has taken its place")
	must(t, p.Process.Kill())
	await(t, "the group is gone", func() bool { return gone(all) })
	info, err := engine(t, store).Inspect(t.Context(), "k")
	check(t, err == nil && len(info.Holders) == 1, "the key was free before: %+v, %v", info, err)
}

// --max-hold ends the program, and the key stays held until it is dead.
func TestRunMaxHold(t *testing.T) {
	store := onRedis(t)
	p, file := beating(t, store, "--max-hold=4s", "--grace=300ms")
	wantDead(t, file, <-nextHolder(t, engine(t, store), "k"))
	p.ends(76).says("--max-hold")
}

// A release that is not answered is said; the status stays the program's. So is a record, without which a success is none.
func TestTheEndIsUnanswered(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for verb, end := range map[string]struct {
		exit, says string
		status     int
	}{
		"run":  {"exit 5", "the release was not answered", 5},
		"once": {"exit 0", "may run again", statusUnavailable},
	} {
		way := servertest.NewProxy(t, server.Addr())
		p := command(t, "--store", "redis://"+way.Addr()+"?read_timeout=300ms", "--timeout=1s", verb, verb, "--ttl=3s", "--", "sh", "-c", "echo in; read x; "+end.exit)
		stdin := p.typed()
		p.says("in")
		way.Blackhole()
		_ = stdin.Close()
		p.ends(end.status).says(end.says)
	}
}
