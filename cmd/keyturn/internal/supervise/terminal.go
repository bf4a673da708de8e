//go:build unix

package supervise

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// terminal is the controlling terminal. The program of its foreground job gets the foreground, as a
// shell does for its jobs: it can read, and gets Ctrl-C and Ctrl-Z itself. Another job's program has to
// wait until the shell brings the job to the foreground. Nil: there is no terminal.
type terminal struct {
	file *os.File
	own  int // this process's group
}

func openTerminal() *terminal {
	f, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil
	}
	return &terminal{file: f, own: syscall.Getpgrp()}
}

func (t *terminal) close() {
	if t != nil {
		_ = t.file.Close() // nothing was written
	}
}

// front is the group that has the foreground; 0: there is no terminal.
func (t *terminal) front() int {
	if t == nil {
		return 0
	}
	pgid, _ := unix.IoctlGetInt(int(t.file.Fd()), unix.TIOCGPGRP)
	return pgid
}

// giveAtStart gives the program the foreground before it runs, if this process has it.
func (t *terminal) giveAtStart(attr *syscall.SysProcAttr) {
	if t != nil && t.front() == t.own {
		attr.Foreground, attr.Ctty = true, int(t.file.Fd())
	}
}

// give gives the program's group the foreground, if this process has it.
func (t *terminal) give(pgid int) {
	if t != nil && t.front() == t.own {
		t.set(pgid)
	}
}

// take takes the foreground back from the program's group, which may be gone. If the shell has it
// meanwhile, it keeps it, or it could read no more.
func (t *terminal) take(pgid int) {
	if t == nil {
		return
	}
	if front := t.front(); front == pgid || syscall.Kill(-front, 0) == syscall.ESRCH {
		t.set(t.own)
	}
}

// set is also for a process in the background, which the terminal would stop otherwise.
func (t *terminal) set(pgid int) {
	signal.Ignore(syscall.SIGTTOU) // after the start of the program, which would inherit it
	_ = unix.IoctlSetPointerInt(int(t.file.Fd()), unix.TIOCSPGRP, pgid)
}

// suspended is called when the program was stopped. If it was Ctrl-Z, or an attempt to use the terminal
// from the background, the job as a whole stops, so that the shell can bring it back. Otherwise somebody
// has stopped the program alone, and the key stays held.
func (s *supervisor) suspended(by syscall.Signal) {
	switch {
	case s.tty.front() == s.child.pid:
		s.tty.take(s.child.pid)
		s.suspend(syscall.SIGSTOP)
	case s.tty != nil && (by == syscall.SIGTTIN || by == syscall.SIGTTOU):
		s.suspend(by) // which does not stop a process that has no shell any more
	}
}
