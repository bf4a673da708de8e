//go:build unix

package supervise

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// terminal is the controlling terminal, if this process is its foreground job. The program then gets
// the foreground, as a shell does for its jobs: it can read, and gets Ctrl-C and Ctrl-Z itself. Nil:
// there is no terminal, or another job has it.
type terminal struct {
	file *os.File
	own  int // this process's group
}

func openTerminal() *terminal {
	f, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil
	}
	t := &terminal{file: f, own: syscall.Getpgrp()}
	if front, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP); err != nil || front != t.own {
		_ = f.Close() // nothing was written
		return nil
	}
	return t
}

func (t *terminal) close() {
	if t != nil {
		_ = t.file.Close() // nothing was written
	}
}

// giveAtStart gives the program the foreground before it runs.
func (t *terminal) giveAtStart(attr *syscall.SysProcAttr) {
	if t != nil {
		attr.Foreground, attr.Ctty = true, int(t.file.Fd())
	}
}

// give gives the group the foreground, if this process has it.
func (t *terminal) give(pgid int) {
	if t == nil {
		return
	}
	if front, err := unix.IoctlGetInt(int(t.file.Fd()), unix.TIOCGPGRP); err == nil && front == t.own {
		t.set(pgid)
	}
}

// take takes the foreground back.
func (t *terminal) take() {
	if t != nil {
		t.set(t.own)
	}
}

// set is also for a process in the background, which the terminal would stop otherwise.
func (t *terminal) set(pgid int) {
	signal.Ignore(syscall.SIGTTOU) // after the start of the program, which would inherit it
	_ = unix.IoctlSetPointerInt(int(t.file.Fd()), unix.TIOCSPGRP, pgid)
}

// suspended is called when the program was stopped. With a terminal that was Ctrl-Z, or an attempt to
// use the terminal from the background: the job as a whole stops, so the shell gets the terminal.
// Without one, somebody has sent SIGSTOP to the program alone, and the key stays held.
func (t *terminal) suspended(s *supervisor) {
	if t == nil {
		return
	}
	t.take()
	s.suspend()
}
