//go:build unix

package supervise

import (
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// Lease is what the program runs under; core's Lease is one.
type Lease interface {
	Deadline() time.Time
	Done() <-chan struct{}
	Err() error
}

// Program is what is run, and how.
type Program struct {
	Path  string
	Args  []string // the first is the program's name
	Env   []string
	Files []*os.File // standard input, output and error

	Signal  syscall.Signal // asks the program to end
	Grace   time.Duration  // from that signal to SIGKILL
	Margin  time.Duration  // SIGKILL goes out this long before the lease ends, because a death takes time
	MaxHold time.Duration  // after this time the program is asked to end; 0: never
	Detach  bool           // what stays of the group after the program's end is not waited for

	// Say has messages for people. It must not wait for a reader: the program would not be ended in time.
	Say func(format string, args ...any)
}

// Result is how the program ended.
type Result struct {
	// Status is the program's own.
	Status syscall.WaitStatus
	// Stopped is why the program was ended before its time: it matches driver.ErrLeaseLost,
	// ErrExpiring, ErrPaused or ErrMaxHold. Nil: it has come to its own end.
	Stopped error
}

// Reasons to end the program, besides a lease that is lost.
var (
	// ErrExpiring: the lease is about to run out.
	ErrExpiring = errors.New("the lease runs out, because the store does not answer renewals")
	// ErrPaused: the same, and this process did not run for a while, so it could not renew.
	ErrPaused = errors.New("the lease runs out, because keyturn was stopped, or its machine slept or was too busy")
	// ErrMaxHold: the program has run for as long as it may.
	ErrMaxHold = errors.New("the time of --max-hold is over")
)

// pausedFor is how late a check has to be to count as a pause of the process.
const pausedFor = 500 * time.Millisecond

// groupPoll is how often the supervisor looks whether the rest of the group is gone.
const groupPoll = 20 * time.Millisecond

// supervisor is one run. All of it happens on the goroutine of Run.
type supervisor struct {
	Program
	lease Lease
	due   time.Time // when the next check was to come
	child *child
	guard *guard
	tty   *terminal
	// guards is how many there were besides the first.
	guards int

	started time.Time
	ended   bool // the program; its group may still be there
	endedAt time.Time
	told    bool // of what is still there
	status  syscall.WaitStatus
	stopped error // why the group is being ended; nil: it is not
	killAt  time.Time
	lost    <-chan struct{}
}

// Run starts the program and returns when it and its group are gone. signals are passed on to the
// group. The error says why the program could not be started.
func Run(p Program, lease Lease, signals <-chan os.Signal) (Result, error) {
	s := &supervisor{Program: p, lease: lease, lost: lease.Done(), started: time.Now()}
	s.tty = openTerminal()
	defer s.tty.close()
	s.guard = startGuard(p.Say)
	defer func() { s.guard.done() }()
	gate, err := newGate()
	if err != nil {
		return Result{}, err
	}
	defer gate.close()
	if s.child, err = start(p, gate, s.tty); err != nil {
		return Result{}, err
	}
	s.guard.watch(s.child.pid)
	s.check()
	gate.open()
	s.started = time.Now()
	s.loop(signals)
	s.tty.take(s.child.pid)
	if s.stopped == nil && s.status.Signaled() {
		s.stopped = s.lease.Err() // the guard was faster, while this process was stopped
	}
	return Result{Status: s.status, Stopped: s.stopped}, nil
}

func (s *supervisor) loop(signals <-chan os.Signal) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case e := <-s.child.events:
			s.happened(e)
		case sig := <-signals:
			s.pass(sig.(syscall.Signal))
		case <-s.lost:
			s.lost = nil
			s.leaseLost()
		case <-timer.C:
		}
		if s.ended && (s.Detach && s.stopped == nil || s.child.groupGone()) {
			return
		}
		s.due = s.check()
		timer.Reset(max(0, time.Until(s.due)))
	}
}

// check does what is due, and returns when to check again.
func (s *supervisor) check() time.Time {
	now, deadline := time.Now(), s.lease.Deadline().Add(-s.Margin)
	if s.stopped != nil { // the guard gives the same time
		deadline = s.killAt
	}
	s.guard.deadline(deadline)
	next := now.Add(max(groupPoll, time.Until(deadline)/8)) // the deadline may move
	if s.ended {
		next = now.Add(groupPoll)
		s.tellOfTheRest(now)
	}
	sooner := func(t time.Time) {
		if t.Before(next) {
			next = t
		}
	}
	if s.stopped != nil {
		if !now.Before(s.killAt) {
			s.child.signal(syscall.SIGKILL)
			s.killAt = now.Add(groupPoll) // again, if the group has forked meanwhile
		}
		sooner(s.killAt)
		return next
	}
	if s.MaxHold > 0 {
		if end := s.started.Add(s.MaxHold); !now.Before(end) {
			s.stop(ErrMaxHold, now.Add(s.Grace))
			return now
		} else {
			sooner(end)
		}
	}
	if warn := deadline.Add(-s.Grace); !now.Before(warn) {
		why := ErrExpiring
		if !s.due.IsZero() && now.Sub(s.due) > pausedFor {
			why = ErrPaused
		}
		s.stop(why, deadline)
		return now
	} else {
		sooner(warn)
	}
	return next
}

// restFor is how long the rest of a group may take to end with its program, as after a signal to all of it, until
// that is worth a message.
const restFor = 200 * time.Millisecond

// tellOfTheRest says that the key is kept although the program has ended.
func (s *supervisor) tellOfTheRest(now time.Time) {
	if s.told || s.stopped != nil || now.Sub(s.endedAt) < restFor {
		return
	}
	s.told = true
	s.Say("the program has ended, but processes of its group go on and keep the key (--detach releases it)")
}

// leaseLost is called once. After a loss by time there is none left. Otherwise somebody has taken the
// key, and may have given it to another holder already.
func (s *supervisor) leaseLost() {
	err := s.lease.Err()
	var loss *driver.LeaseLostError
	late := errors.As(err, &loss) && (loss.Reason == driver.LossExpired || loss.Reason == driver.LossSuspended)
	switch {
	case late && s.stopped == nil:
		s.stop(err, time.Now())
	case late:
		s.killAt = time.Now()
	case s.stopped == nil:
		s.stop(err, time.Now().Add(s.Grace))
	}
}

// stop asks the group to end, until killAt.
func (s *supervisor) stop(why error, killAt time.Time) {
	s.stopped, s.killAt = why, killAt
	if left := time.Until(killAt); left > 0 {
		s.Say("%v: sending %s, and SIGKILL in %v", why, name(s.Signal), left.Round(time.Millisecond))
	} else {
		s.Say("%v: sending SIGKILL", why)
	}
	s.child.signal(s.Signal)
	s.child.signal(syscall.SIGCONT) // a stopped process could not react
}

// happened takes note of what the program does.
func (s *supervisor) happened(e event) {
	switch {
	case s.guard.is(e.pid):
		s.newGuard()
	case e.pid != s.child.pid: // an orphan, which counts with its group
	case e.status.Stopped():
		s.suspended(e.status.StopSignal())
	case e.status.Exited(), e.status.Signaled():
		s.ended, s.status, s.endedAt = true, e.status, time.Now()
		s.tty.take(s.child.pid)
	}
}
