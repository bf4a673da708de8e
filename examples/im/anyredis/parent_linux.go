package anyredis

import (
	"os/exec"
	"syscall"
)

// endWithParent has the kernel end a redis-server with this process, should
// that be killed: unlike our own processes it does not watch its parent. And it
// keeps a terminal's Ctrl-C from it, which would end it before its clients.
func endWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
