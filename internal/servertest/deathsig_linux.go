package servertest

import (
	"os/exec"
	"syscall"
)

// DieWithParent makes the kernel end a process with the one that starts it, also if it is stopped. A test run that
// panics, times out or is killed runs no cleanup. A terminal's Ctrl-C reaches the parent alone: a server would
// otherwise end before its clients.
func DieWithParent(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig, cmd.SysProcAttr.Setpgid = syscall.SIGKILL, true
}
