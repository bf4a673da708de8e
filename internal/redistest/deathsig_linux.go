package redistest

import (
	"os/exec"
	"syscall"
)

// dieWithTest makes the kernel end the server with the test binary. A test run that panics,
// times out or is killed runs no cleanup.
func dieWithTest(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
