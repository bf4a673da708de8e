//go:build unix

package supervise

import (
	"fmt"
	"os"
	"syscall"
	"time"
)

// pass passes a signal on to the group.
func (s *supervisor) pass(sig syscall.Signal) {
	switch sig {
	case syscall.SIGTSTP:
		s.child.signal(sig)
		s.suspend(syscall.SIGSTOP)
	case syscall.SIGCONT:
		s.resume()
	default:
		s.child.signal(sig)
	}
}

// suspend stops this process. Until it is continued nobody renews, and the guard may kill the group.
// The signal may stop this thread a little after kill has returned, so only SIGCONT tells that the
// time has come to go on.
func (s *supervisor) suspend(sig syscall.Signal) {
	time.Sleep(groupPoll) // the group has the signal; it stops before this process does
	_ = syscall.Kill(syscall.Getpid(), sig)
}

// resume lets the group go on if the lease is still there.
func (s *supervisor) resume() {
	if err := s.lease.Err(); err != nil && s.stopped == nil {
		s.stop(err, time.Now())
		s.child.signal(syscall.SIGKILL)
		return
	}
	s.check() // the deadline may be near
	s.tty.give(s.child.pid)
	s.child.signal(syscall.SIGCONT)
}

func name(sig syscall.Signal) string {
	for text, known := range Signals {
		if known == sig {
			return "SIG" + text
		}
	}
	return fmt.Sprintf("signal %d", int(sig))
}

// Signals are those that a program may be asked to end with.
var Signals = map[string]syscall.Signal{
	"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "HUP": syscall.SIGHUP, "QUIT": syscall.SIGQUIT,
	"USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2, "KILL": syscall.SIGKILL,
}

// Passed are the signals that are passed on.
var Passed = []os.Signal{
	syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
	syscall.SIGWINCH, syscall.SIGCONT, syscall.SIGTSTP,
}
