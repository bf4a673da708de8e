package servertest

import (
	"os/exec"
	"syscall"
)

// dieWithTest makes the kernel end the server with the test binary. A test run that panics,
// times out or is killed runs no cleanup.
func dieWithTest(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
}
