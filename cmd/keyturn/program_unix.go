//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/keyturn/keyturn/cmd/keyturn/internal/supervise"
	"github.com/keyturn/keyturn/cmd/keyturn/internal/table"
	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/experimental/carry"
)

// The variables that a program finds. Nobody else sets them.
const (
	keyVar    = "KEYTURN_KEY"    // the keys, one a line
	tokenVar  = "KEYTURN_TOKEN"  // the fencing token
	ownerVar  = "KEYTURN_OWNER"  // as show names it
	leasesVar = "KEYTURN_LEASES" // package carry reads it
)

// mostMargin is how long before the end of its lease a program is killed at most. A process that has much
// memory takes time to die, and on a busy machine every signal is late.
const mostMargin = 500 * time.Millisecond

// program finds the program before the key is taken.
func program(argv []string) (path string, err error) {
	path, err = exec.LookPath(argv[0])
	switch {
	case err == nil, errors.Is(err, exec.ErrDot):
		return path, nil
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return "", exit(statusNotFound, "%v", err)
	}
	return "", exit(statusNotRun, "%v", err)
}

// signals is where the signals for this process go: while it waits they end the wait, and then they
// are passed on to the program.
type signals struct {
	all     chan os.Signal
	waiting chan struct{} // a receiver is there while the wait goes on
}

// catch begins a wait. The context ends with the first signal that would end the process. That of the command, in
// which a signal may have come before, has no meaning after the wait: the program decides what a signal does.
func catch(command context.Context) (*signals, context.Context) {
	s := &signals{all: make(chan os.Signal, 16), waiting: make(chan struct{})}
	s.notify(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2)
	outliveReaders()
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(command))
	go func() {
		select {
		case sig := <-s.all:
			cancel(signalError{sig.(syscall.Signal)})
		case <-command.Done():
			cancel(context.Cause(command))
		case <-s.waiting:
		}
	}()
	return s, ctx
}

// outliveReaders has a write to a pipe that nobody reads any more fail, as in "2> >(head -1)". It would end
// this process otherwise, and with it the program, which would not be asked first. The program itself gets
// the signal as ever.
func outliveReaders() {
	if !signal.Ignored(syscall.SIGPIPE) {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	}
}

// notify leaves a signal alone that this process was told to ignore, as by nohup: the program then
// ignores it, too.
func (s *signals) notify(sigs ...os.Signal) {
	sigs = slices.DeleteFunc(sigs, signal.Ignored)
	if len(sigs) > 0 { // none would mean all
		signal.Notify(s.all, sigs...)
	}
}

// running ends the wait of ctx: signals are for the program now. The error is a signal that came before.
func (s *signals) running(ctx context.Context) (<-chan os.Signal, error) {
	select {
	case s.waiting <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	s.notify(slices.Clone(supervise.Passed)...)
	return s.all, nil
}

// ended returns the status of the signal that has ended the wait of ctx, if one has; otherwise err.
func ended(ctx context.Context, err error) error {
	var by signalError
	if err != nil && errors.As(context.Cause(ctx), &by) {
		return &exitError{status: statusSignal + int(by.Signal)}
	}
	return err
}

// waitFailed returns the error for a key that was not to be had.
func (a *app) waitFailed(err error, f *runFlags) error {
	var held *core.HeldError
	switch {
	case errors.As(err, &held):
		text := fmt.Sprintf("%s is held by another", table.Safe(held.Key))
		if held.Holder != "" {
			text = fmt.Sprintf("%s is held by %s", table.Safe(held.Key), table.Safe(person(held.Holder)))
		}
		if held.HeldFor > 0 {
			text += " for " + age(held.HeldFor)
		}
		if f.quiet {
			return &exitError{status: f.conflict}
		}
		return exit(f.conflict, "%s", text)
	case errors.Is(err, core.ErrHeld):
		return exit(f.conflict, "%v", err)
	}
	return err
}

// supervised runs the program under the lease.
func (a *app) supervised(lease *core.Lease, f *runFlags, sigs <-chan os.Signal, stdout *os.File) (supervise.Result, error) {
	if err := prolong(lease); err != nil {
		return supervise.Result{}, err
	}
	ttl := lease.TTL() // a carried lease has that of its holder, which may be shorter than --ttl
	result, err := supervise.Run(supervise.Program{
		Path: f.path, Args: f.argv, Env: environment(lease),
		Files:  []*os.File{a.stdin, stdout, os.Stderr},
		Signal: supervise.Signals[strings.TrimPrefix(f.signal, "SIG")], Grace: min(f.grace, ttl/3), Margin: min(ttl/20, mostMargin), MaxHold: f.maxHold,
		Detach: f.detach, Say: a.say,
	}, lease, sigs)
	if err != nil {
		return result, exit(statusNotRun, "%v", err)
	}
	return result, nil
}

// prolong renews a lease that has not got its whole TTL yet: a store that has called a waiter grants a
// shorter time at first, until it knows that the waiter is alive.
func prolong(lease *core.Lease) error {
	if time.Until(lease.Deadline()) > lease.TTL()/2 {
		return nil
	}
	return lease.Extend(context.Background(), 0)
}

// environment is what the program finds: that of this process, and the lease.
func environment(lease *core.Lease) []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains([]string{keyVar, tokenVar, ownerVar, leasesVar}, name)
	})
	return append(env,
		keyVar+"="+strings.Join(driver.Keys(lease.Claims()), "\n"),
		tokenVar+"="+strconv.FormatUint(lease.Token(), 10),
		ownerVar+"="+lease.Owner(),
		leasesVar+"="+carry.Leases(lease.Context()),
	)
}

// statusOfProgram is the status for the end of a program.
func (a *app) statusOfProgram(result supervise.Result, released error) error {
	status := result.Status.ExitStatus()
	if result.Status.Signaled() {
		status = statusSignal + int(result.Status.Signal())
	}
	switch {
	case result.Stopped != nil:
		return &exitError{status: statusLost} // it was said when it happened
	case errors.Is(released, driver.ErrLeaseLost):
		a.say("%v, while the program ran: somebody else may have had the key", released)
		if status == 0 {
			status = statusLost
		}
	case released != nil:
		a.say("the release was not answered, so the key may stay held until its TTL is over: %v", released)
	}
	if status == 0 {
		return nil
	}
	return &exitError{status: status}
}
