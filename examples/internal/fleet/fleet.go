// Package fleet runs this program's own processes: the program starts itself again, in a role.
// See [Child] for the other side.
//
// A process prints its address on its standard output, and lives as long as its standard input
// is open. However the parent ends, the kernel closes that input, on every system. So no
// process is left running.
package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"time"
)

const (
	// startTimeout is long enough for a busy machine.
	startTimeout = 20 * time.Second
	// stopTimeout is how long a process may take to end by itself: a little more than the limit
	// that it sets itself.
	stopTimeout = childTimeout + time.Second
)

// Fleet is a set of running processes. Make one with [New], and Stop it.
type Fleet struct {
	ended                     context.CancelCauseFunc
	startTimeout, stopTimeout time.Duration

	mu       sync.Mutex
	procs    []*process
	stopping bool
}

// New makes an empty fleet. ended is called when a process ends without having been told to,
// with its last output. The run is then worthless.
func New(ended context.CancelCauseFunc) *Fleet {
	return &Fleet{ended: ended, startTimeout: startTimeout, stopTimeout: stopTimeout}
}

// Start starts this program again, with these arguments and with env added to its environment.
// It waits until the process has printed its address. The name is for errors.
//
// If the process ended or did not get ready, the error has its last output.
func (f *Fleet) Start(ctx context.Context, name string, env []string, args ...string) (addr string, pid int, err error) {
	self, err := os.Executable()
	if err != nil {
		return "", 0, fmt.Errorf("start %s: %w", name, err)
	}
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), env...)
	p, err := start(name, cmd)
	if err != nil {
		return "", 0, fmt.Errorf("start %s: %w", name, err)
	}
	f.mu.Lock()
	f.procs = append(f.procs, p)
	f.mu.Unlock()
	go f.watch(p)

	timer := time.NewTimer(f.startTimeout)
	defer timer.Stop()
	select {
	case addr = <-p.ready:
		return addr, cmd.Process.Pid, nil
	case <-p.done:
		return "", 0, p.failure()
	case <-ctx.Done():
		return "", 0, context.Cause(ctx)
	case <-timer.C:
		return "", 0, fmt.Errorf("%s is not ready after %v%s", name, f.startTimeout, p.said())
	}
}

// watch reports a process that ends by itself. It ends with the process.
func (f *Fleet) watch(p *process) {
	err := p.cmd.Wait()
	f.mu.Lock()
	p.err = err
	p.unexpected = !f.stopping
	f.mu.Unlock()
	close(p.done)
	if p.unexpected {
		f.ended(p.failure())
	}
}

// Stop ends all processes, first politely, and returns when they are gone. The error names
// those that did not end properly.
func (f *Fleet) Stop() error {
	f.mu.Lock()
	f.stopping = true
	procs := f.procs
	f.procs = nil
	f.mu.Unlock()

	var errs []error
	deadline := time.Now().Add(f.stopTimeout)
	for _, p := range procs {
		p.askToEnd()
	}
	for _, p := range procs {
		errs = append(errs, p.end(time.Until(deadline)))
	}
	return errors.Join(errs...)
}
