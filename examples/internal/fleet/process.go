package fleet

import (
	"bytes"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// process is one child.
type process struct {
	name  string
	cmd   *exec.Cmd
	stdin io.Closer
	ready <-chan string // gets its address, once
	log   *tail
	done  chan struct{} // closed when the process is gone

	// To be read after done.
	err        error // how it ended
	unexpected bool  // it ended without having been told to
}

func start(name string, cmd *exec.Cmd) (*process, error) {
	ready := make(chan string, 1)
	p := &process{name: name, cmd: cmd, ready: ready, log: &tail{}, done: make(chan struct{})}
	cmd.Stdout = &firstLine{found: ready}
	cmd.Stderr = p.log
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	p.stdin = stdin
	return p, cmd.Start()
}

func (p *process) askToEnd() { _ = p.stdin.Close() }

// end waits for the process, and kills it after the patience.
func (p *process) end(patience time.Duration) error {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		_ = p.cmd.Process.Kill() // fails only if it has just ended
		<-p.done
		return fmt.Errorf("%s did not end and was killed%s", p.name, p.said())
	}
	if p.err == nil || p.unexpected { // an unexpected end was reported before
		return nil
	}
	return p.failure()
}

// failure says how the process ended. Call it only after done.
func (p *process) failure() error {
	how := "it ended"
	if p.err != nil {
		how = p.err.Error()
	}
	return fmt.Errorf("%s (pid %d): %s%s", p.name, p.cmd.Process.Pid, how, p.said())
}

// said returns the end of the process's output, for an error.
func (p *process) said() string {
	text := strings.TrimSpace(p.log.String())
	if text == "" {
		return ""
	}
	return "; it said:\n  " + strings.ReplaceAll(text, "\n", "\n  ")
}

// firstLine sends the first line that is written to it, and drops the rest.
type firstLine struct {
	found chan<- string
	buf   []byte
	over  bool
}

func (w *firstLine) Write(b []byte) (int, error) {
	if !w.over {
		w.buf = append(w.buf, b...)
		if line, _, ok := bytes.Cut(w.buf, []byte("\n")); ok {
			w.found <- string(line)
			w.over, w.buf = true, nil
		}
	}
	return len(b), nil
}

// tail keeps the end of what is written to it.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

const tailBytes = 2 << 10

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, b...)
	if over := len(t.buf) - tailBytes; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.buf)
}
