package anyredis

import (
	"os/exec"
	"syscall"
)

// endWithParent makes the kernel end a redis-server when this process is killed: unlike our own
// processes, a redis-server does not watch its parent. It also keeps a terminal's Ctrl-C from
// the server, which would otherwise end before its clients.
func endWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
