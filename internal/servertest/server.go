//go:build unix

package servertest

import (
	"errors"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"
)

const (
	// A server is ready within a second. A busy machine may need much more.
	startTimeout = 60 * time.Second
	// How long a server may take to end by itself before it is killed.
	stopTimeout = 2 * time.Second
	// How often a port that somebody else took is replaced or retried.
	bindAttempts = 20
)

// ErrPortTaken says that a server could not listen on the port that it was given.
var ErrPortTaken = errors.New("port is taken")

// Program says how to run a server.
type Program struct {
	// Command returns the command that runs the server on a port of the loopback interface. It
	// is called for each start.
	Command func(port int) *exec.Cmd
	// Ready is what the program prints once it accepts connections.
	Ready string
	// Stop ends the program politely. Zero is SIGTERM.
	Stop syscall.Signal
	// Port picks a port. Nil is [FreePort].
	Port func() (int, error)
}

// Server is a running server that only this test uses. It listens on the loopback interface.
//
// Its methods are meant for one goroutine at a time.
type Server struct {
	program Program
	port    int
	proc    *process // nil while the server is down
	kept    func()   // gives up the port of a server that was killed; nil: nobody keeps it
}

// Start runs a server until the test and its subtests end. The test fails at once if the server
// does not start.
func Start(t testing.TB, p Program) *Server {
	t.Helper()
	if p.Port == nil {
		p.Port = FreePort
	}
	if p.Stop == 0 {
		p.Stop = syscall.SIGTERM
	}
	s := &Server{program: p}
	t.Cleanup(s.stop)
	// Another process of a parallel test run can take a free port before the server listens on
	// it.
	var err error
	for range bindAttempts {
		s.port, err = p.Port()
		if err != nil {
			t.Fatalf("servertest: no free port: %v", err)
		}
		if err = s.run(); !errors.Is(err, ErrPortTaken) {
			break
		}
	}
	if err != nil {
		t.Fatalf("servertest: %v", err)
	}
	return s
}

// Port returns the server's port. It stays the same over restarts.
func (s *Server) Port() int { return s.port }

// Addr returns the server's host:port. It stays the same over restarts.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// PID returns the id of the server's process, or 0 while the server is down.
func (s *Server) PID() int {
	if s.proc == nil {
		return 0
	}
	return s.proc.cmd.Process.Pid
}

// Log returns what the server has printed since it was started.
func (s *Server) Log() string {
	if s.proc == nil {
		return ""
	}
	return s.proc.log.text()
}

// Kill ends the server and its children at once, like kill -9 or a power failure. It returns when
// the processes are gone. A server that is down stays down. Until the next Restart or the end of
// the test, its port refuses connections: no other server gets it.
func (s *Server) Kill() {
	if s.proc == nil {
		return
	}
	s.proc.kill()
	s.proc = nil
	s.kept = keepPort(s.port)
}

// leavePort gives up the port that Kill keeps.
func (s *Server) leavePort() {
	if s.kept != nil {
		s.kept()
		s.kept = nil
	}
}

// Restart kills the server, if it is up, and runs a new one on the same port. Everything that
// clients had set up is gone.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.Kill()
	s.leavePort()
	var err error
	for range bindAttempts {
		if err = s.run(); !errors.Is(err, ErrPortTaken) {
			break
		}
		// Nobody else was given this port, so it is free again soon.
		time.Sleep(50 * time.Millisecond)
	}
	if err != nil {
		t.Fatalf("servertest: restart: %v", err)
	}
}

// Pause stops the server without ending it (SIGSTOP), and returns when all of its threads have
// stopped. Connections stay open and the kernel accepts new ones, but nothing is answered until
// Resume.
func (s *Server) Pause() {
	// First the process that starts others.
	s.signal(syscall.SIGSTOP)
	s.signalChildren(syscall.SIGSTOP)
	if s.proc == nil {
		return
	}
	all := append(s.proc.children(), s.PID())
	for end := time.Now().Add(stopTimeout); !allStopped(all) && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
}

func allStopped(pids []int) bool {
	return !slices.ContainsFunc(pids, func(pid int) bool { return !stopped(pid) })
}

// Resume continues a paused server. It then reads, and answers, what clients sent in between.
func (s *Server) Resume() {
	s.signalChildren(syscall.SIGCONT)
	s.signal(syscall.SIGCONT)
}

func (s *Server) signal(sig syscall.Signal) {
	if s.proc != nil {
		s.proc.signal(sig)
	}
}

func (s *Server) signalChildren(sig syscall.Signal) {
	if s.proc == nil {
		return
	}
	for _, pid := range s.proc.children() {
		_ = syscall.Kill(pid, sig) // fails only if it has ended
	}
}

// stop ends the server when the test ends, first politely.
func (s *Server) stop() {
	defer s.leavePort()
	if s.proc == nil {
		return
	}
	// A paused process would not see the signal.
	s.Resume()
	s.signal(s.program.Stop)
	select {
	case <-s.proc.done:
		s.proc = nil
	case <-time.After(stopTimeout):
		s.Kill()
	}
}

// run starts a process on s.port and waits until it accepts connections.
func (s *Server) run() error {
	cmd := s.program.Command(s.port)
	p, err := startProcess(cmd, s.program.Ready)
	if err != nil {
		return err
	}
	select {
	case <-p.ready:
		s.proc = p
		return nil
	case <-p.done:
		if p.log.says("ddress already in use") { // with or without a capital
			return fmt.Errorf("%w: %d", ErrPortTaken, s.port)
		}
		return fmt.Errorf("%s ended at start:\n%s", cmd.Path, p.log.text())
	case <-time.After(startTimeout):
		p.kill()
		return fmt.Errorf("%s is not ready after %v:\n%s", cmd.Path, startTimeout, p.log.text())
	}
}

// LookPath returns the first of the programs that is on PATH or in one of the directories dirs.
func LookPath(names []string, dirs ...string) (string, error) {
	for _, name := range names {
		if bin, err := exec.LookPath(name); err == nil {
			return bin, nil
		}
		for _, dir := range dirs {
			if bin, err := exec.LookPath(dir + "/" + name); err == nil {
				return bin, nil
			}
		}
	}
	return "", fmt.Errorf("none of %q is on PATH; make test installs it", names)
}
