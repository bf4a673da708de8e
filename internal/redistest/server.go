//go:build unix

package redistest

import (
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"
)

const (
	// A server is ready within some 10 ms. A busy machine may need much more.
	startTimeout = 20 * time.Second
	// How long a server may take to end by itself before it is killed.
	stopTimeout = 2 * time.Second
	// How often a port that somebody else took is replaced or retried.
	bindAttempts = 20
)

// errPortTaken says that a server could not listen on the port that it was given.
var errPortTaken = errors.New("port is taken")

// KeepData are arguments of [Start] for a server that keeps its data over a [Server.Restart].
// Each write is then on disk before it is answered.
var KeepData = []string{"--appendonly", "yes", "--appendfsync", "always"}

// Server is a running Redis or Valkey server that only this test uses. It listens on the
// loopback interface. Without [KeepData] it writes nothing to disk.
//
// Its methods are meant for one goroutine at a time.
type Server struct {
	t    testing.TB // the one of Start; what lives as long as the server is cleaned up with it
	bin  string
	conf string // its configuration file, or ""
	args []string
	port int
	word string // it prints this when it accepts connections

	proc *process // nil while the server is down
	kept func()   // gives up the port of a server that was killed; nil: nobody keeps it
}

// Start runs a server until the test and its subtests end. args are added to the command line,
// for instance "--maxmemory", "10mb".
//
// The test fails at once if neither redis-server nor valkey-server is on PATH, or if the server
// does not start.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	return start(t, freePort, &Server{args: args, word: "Ready to accept connections"})
}

// start runs s, which has its arguments, on a port that pick returns.
func start(t testing.TB, pick func() (int, error), s *Server) *Server {
	t.Helper()
	bin, err := lookPath("redis-server", "valkey-server")
	if err != nil {
		t.Fatalf("redistest: %v; make test installs it", err)
	}
	s.t, s.bin = t, bin
	s.args = append([]string{
		"--bind", "127.0.0.1",
		"--save", "",
		"--appendonly", "no",
		"--dir", t.TempDir(),
	}, s.args...)
	t.Cleanup(s.stop)

	// Another process of a parallel test run can take a free port before the server listens on
	// it.
	for range bindAttempts {
		s.port, err = pick()
		if err != nil {
			t.Fatalf("redistest: no free port: %v", err)
		}
		if err = s.run(); !errors.Is(err, errPortTaken) {
			break
		}
	}
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	return s
}

// Addr returns the server's host:port. It stays the same over restarts.
func (s *Server) Addr() string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port))
}

// Kill ends the server at once, like kill -9 or a power failure. It returns when the process is
// gone. A server that is down stays down. Until the next Restart or the end of the test, its port
// refuses connections: no other server gets it.
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

// Restart kills the server, if it is up, and runs a new one on the same port. The data is gone,
// unless the server keeps it ([KeepData]), and so is everything that clients had set up.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.Kill()
	s.leavePort()
	var err error
	for range bindAttempts {
		if err = s.run(); !errors.Is(err, errPortTaken) {
			break
		}
		// Nobody else was given this port, so it is free again soon.
		time.Sleep(50 * time.Millisecond)
	}
	if err != nil {
		t.Fatalf("redistest: restart: %v", err)
	}
}

// Pause stops the process without ending it (SIGSTOP). Connections stay open and the kernel
// accepts new ones, but nothing is answered until Resume.
func (s *Server) Pause() { s.signal(syscall.SIGSTOP) }

// Resume continues a paused server. It then reads, and answers, what clients sent in between.
func (s *Server) Resume() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig syscall.Signal) {
	if s.proc != nil {
		// The only error is that the process has ended, which the next use reports.
		_ = s.proc.cmd.Process.Signal(sig)
	}
}

// stop ends the server when the test ends, first politely.
func (s *Server) stop() {
	defer s.leavePort()
	if s.proc == nil {
		return
	}
	// A paused process would not see SIGTERM.
	s.signal(syscall.SIGCONT)
	s.signal(syscall.SIGTERM)
	select {
	case <-s.proc.done:
		s.proc = nil
	case <-time.After(stopTimeout):
		s.Kill()
	}
}

// run starts a process on s.port and waits until it accepts connections.
func (s *Server) run() error {
	args := append([]string{"--port", strconv.Itoa(s.port)}, s.args...)
	if s.conf != "" {
		args = append([]string{s.conf}, args...)
	}
	p, err := startProcess(exec.Command(s.bin, args...), s.word)
	if err != nil {
		return err
	}
	select {
	case <-p.ready:
		s.proc = p
		return nil
	case <-p.done:
		if p.log.says("Address already in use") {
			return fmt.Errorf("%w: %d", errPortTaken, s.port)
		}
		return fmt.Errorf("%s ended at start:\n%s", s.bin, p.log.text())
	case <-time.After(startTimeout):
		p.kill()
		return fmt.Errorf("%s is not ready after %v:\n%s", s.bin, startTimeout, p.log.text())
	}
}

// lookPath returns the first of the programs that is on PATH.
func lookPath(names ...string) (string, error) {
	for _, name := range names {
		if bin, err := exec.LookPath(name); err == nil {
			return bin, nil
		}
	}
	return "", fmt.Errorf("none of %q is on PATH", names)
}
