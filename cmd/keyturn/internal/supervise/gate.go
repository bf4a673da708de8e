//go:build unix

package supervise

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// The program must not run for a moment before the guard knows its group: if the supervisor were
// stopped or killed in that moment, nobody would end the program. So this executable is started in the
// program's place, waits at a gate, and becomes the program when the gate is opened. If the supervisor
// dies before that, the gate never opens.

// The variables with the number of the gate's file and with the program.
const (
	gateVar = "KEYTURN_GATE"
	pathVar = "KEYTURN_PATH"
)

// gate is the supervisor's end.
type gate struct{ read, write *os.File }

func newGate() (*gate, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	return &gate{read, write}, nil
}

// begin starts this executable in the place of the program. Files that the caller of keyturn has left
// open for the program keep their numbers.
func (g *gate) begin(p Program, attr *syscall.SysProcAttr) (*os.Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	files := slices.Clone(p.Files)
	for inherited(len(files)) {
		files = append(files, os.NewFile(uintptr(len(files)), ""))
	}
	env := append(slices.Clone(p.Env), gateVar+"="+strconv.Itoa(len(files)), pathVar+"="+p.Path)
	process, err := os.StartProcess(self, p.Args, &os.ProcAttr{Env: env, Files: append(files, g.read), Sys: attr})
	runtime.KeepAlive(files) // the collector may close this process's copies afterwards
	return process, err
}

// inherited reports whether a program that is started gets the file with that number.
func inherited(fd int) bool {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	return err == nil && flags&unix.FD_CLOEXEC == 0
}

// open lets the program begin.
func (g *gate) open() { _, _ = g.write.Write([]byte{1}) } // a program that was killed does not read

func (g *gate) close() {
	_ = g.read.Close()
	_ = g.write.Close()
}

// pass waits for the gate to open and becomes the program. It returns the status of a process that
// could not.
func pass() int {
	fd, err := strconv.Atoi(os.Getenv(gateVar))
	if err != nil {
		return 1
	}
	in := os.NewFile(uintptr(fd), "gate")
	if n, _ := in.Read(make([]byte, 1)); n == 0 {
		return 1 // the supervisor has gone
	}
	_ = in.Close()
	path := os.Getenv(pathVar)
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, gateVar+"=") || strings.HasPrefix(v, pathVar+"=")
	})
	err = syscall.Exec(path, os.Args, env)
	fmt.Fprintf(os.Stderr, "keyturn: %s: %v\n", path, err)
	return 126
}
