//go:build unix && !linux

package servertest

import (
	"fmt"
	"os/exec"
	"strings"
	"syscall"
)

// childrenOf returns the processes that the process pid has started.
func childrenOf(pid int) []int {
	out, _ := exec.Command("ps", "-A", "-o", "pid=,ppid=").Output()
	var children []int
	for line := range strings.Lines(string(out)) {
		var child, parent int
		if _, err := fmt.Sscan(line, &child, &parent); err == nil && parent == pid {
			children = append(children, child)
		}
	}
	return children
}

// stopped reports true: there is no way to tell for all threads.
func stopped(int) bool { return true }

// runs reports whether the process pid exists.
func runs(pid int) bool { return syscall.Kill(pid, 0) == nil }
