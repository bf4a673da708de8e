package servertest

import (
	"os/exec"
	"syscall"
)

// DieWithParent makes the kernel end a process with the one that starts it, also if it is stopped. A test run that
// panics, times out or is killed runs no cleanup.
func DieWithParent(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
}
