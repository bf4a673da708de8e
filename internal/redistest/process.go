//go:build unix

package redistest

import (
	"bytes"
	"os/exec"
	"sync"
)

// process is one run of a server program.
type process struct {
	cmd   *exec.Cmd
	log   *serverLog
	ready <-chan struct{} // closed when the server says that it serves
	done  chan struct{}   // closed when the process is gone
}

// startProcess runs cmd, which serves once it has printed word.
func startProcess(cmd *exec.Cmd, word string) (*process, error) {
	ready := make(chan struct{})
	p := &process{
		cmd:   cmd,
		log:   &serverLog{word: []byte(word), ready: ready},
		ready: ready,
		done:  make(chan struct{}),
	}
	cmd.Stdout, cmd.Stderr = p.log, p.log
	dieWithTest(cmd)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.done)
		_ = cmd.Wait() // "signal: killed" is how it is meant to end
	}()
	return p, nil
}

// kill ends the process now and returns when it is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // fails only when it is gone already
	<-p.done
}

// serverLog keeps what a server prints, and watches it for the line that says
// it serves. That line, unlike an answer to PING, can only come from the very
// process we started: were our port taken by somebody else's server at the same
// moment, PING would be answered as well.
type serverLog struct {
	mu    sync.Mutex
	buf   bytes.Buffer
	word  []byte
	ready chan struct{} // nil once closed
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
