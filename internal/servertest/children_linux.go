package servertest

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// childrenOf returns the processes that the process pid has started.
func childrenOf(pid int) []int {
	entries, _ := os.ReadDir("/proc")
	var children []int
	for _, entry := range entries {
		child, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if _, parent := stat(child); parent == pid {
			children = append(children, child)
		}
	}
	return children
}

// runs reports whether the process pid still does something. One that has ended may stay in the
// list of processes, if nobody asks how it ended.
func runs(pid int) bool {
	state, _ := stat(pid)
	return state != "" && state != "Z"
}

// stopped reports whether no thread of the process pid runs any more. The threads of a process stop one
// after the other, and one that has not stopped yet may still answer a request.
func stopped(pid int) bool {
	threads, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	for _, thread := range threads {
		tid, err := strconv.Atoi(thread.Name())
		if err != nil {
			continue
		}
		if state, _ := stat(tid); state != "" && !strings.Contains("TtZX", state) {
			return false
		}
	}
	return true
}

// stat returns the state and the parent of a process; no state if it does not exist.
func stat(pid int) (state string, parent int) {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	// The name of the program comes first, in brackets, and may hold anything.
	fields := strings.Fields(string(data)[strings.LastIndexByte(string(data), ')')+1:])
	if len(fields) < 2 {
		return "", 0
	}
	parent, _ = strconv.Atoi(fields[1])
	return fields[0], parent
}
