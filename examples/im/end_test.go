//go:build unix

package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// However a run is cut short, no process of it stays.
func TestLeavesNoProcess(t *testing.T) {
	if testing.Short() {
		t.Skip("it runs the example seven times")
	}
	t.Parallel()
	for _, test := range []struct {
		name   string
		signal syscall.Signal
		to     string // which process
		fleet  int    // of the two: when
		code   int
		says   string
	}{
		{"Ctrl-C", syscall.SIGINT, "im", 1, 1, "interrupted"},
		{"Ctrl-C with locks", syscall.SIGINT, "im", 2, 1, "interrupted"},
		{"SIGTERM", syscall.SIGTERM, "im", 2, 1, "interrupted"},
		{"killed", syscall.SIGKILL, "im", 2, -1, ""},
		{"a gateway crashes", syscall.SIGKILL, "gateway 2", 2, 1, "gateway 2 (pid "},
		{"a service crashes", syscall.SIGKILL, "service 1", 1, 1, "service 1 (pid "},
		{"redis crashes", syscall.SIGKILL, "redis", 1, 1, "without keyturn: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.signal == syscall.SIGKILL && test.to == "im" && runtime.GOOS != "linux" {
				t.Skip("only Linux ends a redis-server whose parent was killed")
			}
			t.Parallel()
			p := command(t, nil)
			p.Stderr = nil
			pipe, err := p.StderrPipe()
			must(t, err)
			stderr := bufio.NewReader(pipe)
			must(t, p.Start())
			pids, said := awaitLoad(t, stderr, test.fleet)
			pids["im"] = p.Process.Pid
			must(t, syscall.Kill(pids[test.to], test.signal))
			rest, _ := io.ReadAll(stderr)
			_ = p.Wait() // the exit code says it
			if code := p.ProcessState.ExitCode(); code != test.code {
				t.Errorf("exit code %d, want %d", code, test.code)
			}
			check(t, strings.Contains(string(rest), test.says), "said %q, want %q in it", said+string(rest), test.says)
			for name, pid := range pids {
				awaitGone(t, name, pid)
			}
		})
	}
}

// awaitLoad reads what a run says until that fleet's load begins, and returns
// the processes that are running then.
func awaitLoad(t *testing.T, stderr *bufio.Reader, fleet int) (pids map[string]int, said string) {
	t.Helper()
	mentioned := regexp.MustCompile(`(service \d|gateway \d|redis)\S*(?: [\d.]+)? \(?pid (\d+)`)
	pids = make(map[string]int)
	for fleet > 0 {
		line, err := stderr.ReadString('\n')
		said += line
		if err != nil {
			t.Fatalf("%v after %q", err, said)
		}
		for _, m := range mentioned.FindAllStringSubmatch(line, -1) {
			pids[m[1]], _ = strconv.Atoi(m[2])
		}
		if strings.Contains(line, "gateway 1 pid") {
			fleet--
		}
	}
	return pids, said
}

// awaitGone waits until there is no such process. Those of a driver that was
// killed end after it.
func awaitGone(t *testing.T, name string, pid int) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); running(pid); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Errorf("%s (pid %d) is still there", name, pid)
			_ = syscall.Kill(pid, syscall.SIGKILL)
			return
		}
	}
}

// running reports whether the process is there and not just waiting for its new
// parent to take note of its end.
func running(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return runtime.GOOS != "linux"
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z")
}
