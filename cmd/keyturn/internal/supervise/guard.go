//go:build unix

package supervise

import (
	"bufio"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// guardVar is the environment variable that makes this program the guard.
const guardVar = "KEYTURN_GUARD"

// Helper reports whether this process is a helper of a supervisor: its guard, or a program that waits at
// the gate. If so, it does its work and returns the status of the process.
func Helper() (status int, is bool) {
	switch {
	case os.Getenv(guardVar) == "1":
		return runGuard(), true
	case os.Getenv(gateVar) != "":
		return pass(), true
	}
	return 0, false
}

// guard is the supervisor's side. Nil: there is none.
type guard struct {
	pid  int
	pipe *os.File
	last time.Time // the deadline that the guard knows
}

// startGuard starts the guard in a session of its own, so no signal for the job reaches it. Without a
// guard the program can still run; the message says what is missing.
func startGuard(say func(string, ...any)) *guard {
	g, err := newGuard()
	if err != nil {
		say("no guard for the case that keyturn is killed or stopped: %v", err)
		return nil
	}
	return g
}

func newGuard() (*guard, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer read.Close()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		_ = write.Close()
		return nil, err
	}
	defer null.Close()
	process, err := os.StartProcess(self, []string{"keyturn-guard"}, &os.ProcAttr{
		Dir: "/", Env: append(os.Environ(), guardVar+"=1"), Files: []*os.File{read, null, null}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		_ = write.Close()
		return nil, err
	}
	g := &guard{pid: process.Pid, pipe: write}
	_ = process.Release() // the wait for all children takes note of its end
	return g, nil
}

// watch names the group.
func (g *guard) watch(pgid int) { g.tell("group %d\n", pgid) }

// deadline says until when the group may run unless a later one is named.
func (g *guard) deadline(at time.Time) {
	if g == nil || at.Equal(g.last) {
		return
	}
	g.last = at
	// First the clock, then what is left: if this process is stopped in between, the sum is too
	// early rather than too late.
	now := monotonic()
	g.tell("until %d\n", now+time.Until(at).Nanoseconds())
}

// is reports whether the guard is that process.
func (g *guard) is(pid int) bool { return g != nil && pid == g.pid }

// done ends the guard, which does nothing any more.
func (g *guard) done() {
	g.tell("done\n")
	if g != nil {
		_ = g.pipe.Close() // there is nothing left to tell
	}
}

func (g *guard) tell(format string, args ...any) {
	if g != nil {
		_, _ = fmt.Fprintf(g.pipe, format, args...) // without a reader, the next guard hears it
	}
}

// mostGuards bounds the guards of a machine that kills each of them.
const mostGuards = 5

// newGuard puts another guard in the place of one that was killed, as by a kernel that is out of memory.
func (s *supervisor) newGuard() {
	s.guard.done()
	if s.guard = nil; s.guards == mostGuards {
		s.Say("the guard was killed again: if keyturn is stopped now, nothing ends the program")
		return
	}
	s.guards++
	if s.guard = startGuard(s.Say); s.guard == nil {
		return
	}
	s.guard.watch(s.child.pid)
	s.check()
	s.Say("the guard was killed; another one has taken its place")
}

// runGuard is the guard's own life: it reads what the supervisor says, and kills the group when the
// supervisor is gone or the last deadline has passed. It returns the status of the process. It ends with its
// supervisor, so a signal to every process of a service, as from systemd or pkill, must not end it before.
func runGuard() int {
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2)
	lines := make(chan string)
	go func() {
		defer close(lines)
		for in := bufio.NewReader(os.Stdin); ; {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			lines <- strings.TrimSuffix(line, "\n")
		}
	}()
	return keep(lines, func(pgid int) { _ = syscall.Kill(-pgid, syscall.SIGKILL) })
}

// keep is runGuard without its process.
func keep(lines <-chan string, kill func(pgid int)) int {
	pgid, overdue := 0, time.NewTimer(time.Hour)
	overdue.Stop()
	defer overdue.Stop()
	for {
		select {
		case line, alive := <-lines:
			word, value, _ := strings.Cut(line, " ")
			n, _ := strconv.ParseInt(value, 10, 64) // only the supervisor writes here
			switch {
			case word == "done":
				return 0
			case !alive:
				if pgid > 0 {
					kill(pgid)
				}
				return 0
			case word == "group":
				pgid = int(n)
			case word == "until":
				overdue.Reset(time.Duration(n - monotonic()))
			}
		case <-overdue.C:
			if pgid > 0 {
				kill(pgid)
			}
			overdue.Reset(groupPoll) // until the supervisor says more, nothing of the group may live
		}
	}
}
