//go:build unix

package servertest

import (
	"bytes"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"
)

// process is one run of a server program.
type process struct {
	cmd   *exec.Cmd
	log   *serverLog
	ready <-chan struct{} // closed when the server accepts connections
	done  chan struct{}   // closed when the process is gone
}

// startProcess runs cmd. The server accepts connections once it has printed word.
func startProcess(cmd *exec.Cmd, word string) (*process, error) {
	ready := make(chan struct{})
	p := &process{
		cmd:   cmd,
		log:   &serverLog{word: []byte(word), ready: ready},
		ready: ready,
		done:  make(chan struct{}),
	}
	cmd.Stdout, cmd.Stderr = p.log, p.log
	DieWithParent(cmd)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.done)
		_ = cmd.Wait() // "signal: killed" is the normal end
	}()
	return p, nil
}

// kill ends the process and its children at once, and returns when all of them are gone.
func (p *process) kill() {
	// The children go first, because otherwise nobody knows any longer which they were. A
	// process that is stopped starts no further ones.
	p.signal(syscall.SIGSTOP)
	children := p.children()
	for _, pid := range children {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	_ = p.cmd.Process.Kill() // fails only if the process is gone already
	<-p.done
	// A new server on the same data would find that the old one is still there.
	for end := time.Now().Add(stopTimeout); slices.ContainsFunc(children, runs) && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
}

// signal sends a signal to the process alone. It does nothing if the process has ended, which the
// next use of the server reports.
func (p *process) signal(sig syscall.Signal) { _ = p.cmd.Process.Signal(sig) }

// children returns the processes that serve together with this one: PostgreSQL has one for each
// connection.
func (p *process) children() []int {
	select {
	case <-p.done:
		return nil
	default:
		return childrenOf(p.cmd.Process.Pid)
	}
}

// serverLog keeps what a server prints, and looks for the line that says that it accepts
// connections. Only the process that we started can print that line. If somebody else's server
// took our port at the same moment, that server would answer a PING, too.
type serverLog struct {
	mu    sync.Mutex
	buf   bytes.Buffer
	word  []byte
	ready chan struct{} // nil after it was closed
}

func (l *serverLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buf.Write(p)
	if l.ready != nil && bytes.Contains(l.buf.Bytes(), l.word) {
		close(l.ready)
		l.ready = nil
	}
	return len(p), nil
}

func (l *serverLog) says(s string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Contains(l.buf.Bytes(), []byte(s))
}

func (l *serverLog) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}
