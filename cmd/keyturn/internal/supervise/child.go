//go:build unix

package supervise

import (
	"runtime"
	"syscall"
)

// event is a change of a child of this process.
type event struct {
	pid    int
	status syscall.WaitStatus
}

// child is the program, the leader of a process group.
type child struct {
	pid    int
	events chan event
}

// start starts the program, which waits at the gate, in a group of its own.
func start(p Program, gate *gate, tty *terminal) (*child, error) {
	adoptOrphans()
	c := &child{events: make(chan event, 16)}
	started := make(chan error)
	go func() {
		// The kernel sends the signal of parentDeath when the thread ends that has started the
		// program. So that thread stays until the program is gone.
		runtime.LockOSThread()
		attr := &syscall.SysProcAttr{Setpgid: true}
		parentDeath(attr)
		tty.giveAtStart(attr)
		process, err := gate.begin(p, attr)
		if err != nil {
			started <- err
			return
		}
		c.pid = process.Pid
		started <- nil
		c.wait()
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return c, nil
}

// wait reports what becomes of every child of this process, orphans of the group included, until
// there is none.
func (c *child) wait() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WUNTRACED, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return
		default:
			c.events <- event{pid, status}
		}
	}
}

// signal sends a signal to the whole group. A group that is gone needs none.
func (c *child) signal(sig syscall.Signal) { _ = syscall.Kill(-c.pid, sig) }

// groupGone reports whether no process of the group is left.
func (c *child) groupGone() bool { return syscall.Kill(-c.pid, 0) == syscall.ESRCH }
