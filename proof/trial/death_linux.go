package trial

import (
	"os/exec"
	"syscall"
)

// dieWithParent has the kernel end a process whose parent was killed, also if it is stopped.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
