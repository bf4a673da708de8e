package linger

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/internal/handoff"
	"github.com/keyturn/keyturn/core/internal/watchdog"
)

// Lease is a lease that lingers. To the watchdog it is the holder of the lease.
type Lease struct {
	table *Table
	grant handoff.Grant
	rule  string
	began time.Time
	watch watchdog.Watch
	over  atomic.Bool // it has ended by itself
}

// Left is a lease that lingers no more.
type Left struct {
	Grant handoff.Grant
	Rule  string // of its last holder
	Began time.Time
	Over  bool      // its time was over; it goes back to the store
	Lost  error     // why the lease is lost; nil: it is in force
	At    time.Time // when it was taken out, if it is in force
}

// errTaken is why a lease that was taken out is renewed no more. Nobody sees it.
var errTaken = errors.New("keyturn: the lease does not linger any more")

// leave ends the renewals. A lease whose lingering was over is still in force: only to the
// watchdog it is lost.
func (s *Lease) leave() Left {
	left := Left{Grant: s.grant, Rule: s.rule, Began: s.began}
	rest, err := s.watch.Release(errTaken)
	switch {
	case err == nil:
		left.Grant.Grant, left.Grant.Longest, left.Grant.Heard, left.At = rest.Grant, rest.Longest, rest.Heard, rest.At
	case timeIsOver(err):
		left.Grant.Grant, left.Grant.Longest = s.watch.Grant()
		left.Over = true
	default:
		left.Lost = err
	}
	return left
}

// timeIsOver reports whether it ended because its time was over. It is a function of its own
// because the target of errors.As is on the heap, even if there is no error.
func timeIsOver(err error) bool {
	var lost *driver.LeaseLostError
	return errors.As(err, &lost) && lost.Reason == driver.LossMaxHold
}

// Loss implements watchdog.Holder.
func (s *Lease) Loss(reason driver.LossReason, said error) error {
	lost := &driver.LeaseLostError{Key: s.grant.Claims[0].Key, Token: s.grant.FencingToken(), Reason: reason}
	if told := (*driver.LeaseLostError)(nil); errors.As(said, &told) && told.Reason != "" {
		lost.Reason, lost.Detail = told.Reason, told.Detail
	}
	return lost
}

// Stop implements watchdog.Holder.
func (s *Lease) Stop(error) { s.over.Store(true) }

// Lost implements watchdog.Holder.
func (s *Lease) Lost(error) { s.table.ended(s) }

// Renewed implements watchdog.Holder.
func (*Lease) Renewed(time.Duration, error) {}
