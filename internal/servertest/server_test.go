//go:build unix

package servertest_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/servertest"
)

const (
	portVariable  = "SERVERTEST_PORT"  // set: this process is a server
	childVariable = "SERVERTEST_CHILD" // set: this server is the child of another one
)

// serve is a server that answers what it is sent. Its child, which serves the next port, is a process of its own.
func serve(port string) {
	l, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		fmt.Println("Address already in use")
		os.Exit(1)
	}
	if child := os.Getenv(childVariable); child != "" {
		cmd := exec.Command(os.Args[0])
		cmd.Env = []string{portVariable + "=" + child}
		cmd.Stdout = os.Stdout
		if err := cmd.Start(); err != nil {
			panic(err)
		}
	} else {
		fmt.Println("serving")
	}
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() { _, _ = io.Copy(conn, conn) }()
	}
}

// program is the one that serve is.
func program(env ...string) servertest.Program {
	return servertest.Program{Ready: "serving", Command: func(port int) *exec.Cmd {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(env, portVariable+"="+strconv.Itoa(port))
		return cmd
	}}
}

// answers asks the server at addr, and waits at most for d.
func answers(addr string, d time.Duration) error {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(d)); err != nil {
		return err
	}
	if _, err := conn.Write([]byte("hello\n")); err != nil {
		return err
	}
	_, err = bufio.NewReader(conn).ReadString('\n')
	return err
}

func TestStartTakesAnotherPortWhenThePickedOneIsTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	taken := l.Addr().(*net.TCPAddr).Port
	p, picks := program(), 0
	p.Port = func() (int, error) {
		picks++
		if picks == 1 {
			return taken, nil
		}
		return servertest.FreePort()
	}
	s := servertest.Start(t, p)
	check(t, picks == 2 && s.Port() != taken, "%d picks, port %d", picks, s.Port())
	wantNil(t, answers(s.Addr(), patience))
}

func TestKillRefusesConnectionsUntilRestart(t *testing.T) {
	s := servertest.Start(t, program())
	s.Kill()
	s.Kill()
	if conn, err := net.Dial("tcp", s.Addr()); err == nil {
		conn.Close()
		t.Fatal("a killed server takes connections")
	}
	if l, err := net.Listen("tcp", s.Addr()); err == nil {
		l.Close()
		t.Error("somebody else got the port of a killed server")
	}
	s.Restart(t)
	wantNil(t, answers(s.Addr(), patience))
}

// Every connection to PostgreSQL is a process of its own.
func TestPauseAndKillReachTheChildren(t *testing.T) {
	child, err := servertest.FreePort()
	must(t, err)
	s := servertest.Start(t, program(childVariable+"="+strconv.Itoa(child)))
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(child))
	for _, at := range []string{s.Addr(), addr} {
		must(t, answers(at, patience))
	}
	s.Pause()
	for _, at := range []string{s.Addr(), addr} {
		var timeout net.Error
		err := answers(at, silence)
		check(t, errors.As(err, &timeout) && timeout.Timeout(), "a paused server answers: %v", err)
	}
	s.Resume()
	for _, at := range []string{s.Addr(), addr} {
		wantNil(t, answers(at, patience))
	}
	s.Pause() // a paused server can be killed, too
	s.Kill()
	err = answers(addr, patience)
	check(t, err != nil, "the child of a killed server answers")
}

func TestPausedServerEndsWithTheTest(t *testing.T) {
	begin := time.Now()
	var pid int
	t.Run("pause", func(t *testing.T) {
		s := servertest.Start(t, program())
		pid = s.PID()
		s.Pause()
	})
	took := time.Since(begin)
	check(t, took <= 2*time.Second, "it took %v: SIGTERM was not seen", took)
	err := syscall.Kill(pid, 0)
	check(t, errors.Is(err, syscall.ESRCH), "process %d is still there: %v", pid, err)
}
