package waitline

import (
	"errors"
	"fmt"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// evidence is what the store last said about a key. A caller that gives up in line has
// not heard from the store itself. The evidence says whether a holder or a silent store
// kept it waiting.
type evidence struct {
	unanswered int              // requests to the store without a word since
	silent     time.Time        // since when that is so, of one at least; zero: it is not
	answered   time.Time        // when the store last answered
	held       driver.HeldError // who was in the way then
	heldSince  time.Time        // since when, about; zero: not known
	outage     error            // set while the last answer was that the store is out
}

// ErrHurried says that the store, or the line for it, had hardly any time to answer. An
// outage that wraps it is one for the caller only.
var ErrHurried = errors.New("no answer in the little time there was")

// asked notes that a request was sent.
func (e *evidence) asked(now time.Time) {
	e.unanswered++
	if e.silent.IsZero() {
		e.silent = now
	}
}

// hungUp notes that no answer to a request is expected any more. That does not end a
// silence that has lasted for fair by now.
func (e *evidence) hungUp(fair time.Duration) {
	e.unanswered--
	if e.unanswered == 0 && time.Since(e.silent) < fair {
		e.silent = time.Time{}
	}
}

// heard notes that the store answered, and who is in the way.
func (e *evidence) heard(held driver.HeldError, now time.Time) {
	e.answered, e.held, e.outage, e.silent = now, held, nil, time.Time{}
	e.heldSince = time.Time{}
	if held.HeldFor > 0 {
		e.heldSince = now.Add(-held.HeldFor)
	}
	if e.unanswered > 0 {
		e.silent = e.answered
	}
}

// handedTo notes who has the key now, since when.
func (e *evidence) handedTo(key, owner, trace string, since time.Time) {
	e.held, e.heldSince = driver.HeldError{Key: key, Holder: owner, Trace: trace}, since
}

// released notes that the holder of this process is done.
func (e *evidence) released() { e.held, e.heldSince = driver.HeldError{}, time.Time{} }

// holder is who is in the way of those in line, as far as it is known.
func (e *evidence) holder(key string) driver.HeldError {
	return driver.HeldError{
		Key: key, Holder: e.held.Holder, Trace: e.held.Trace,
		RetryAfter: e.held.RetryAfter, HeldFor: e.heldFor(), Local: true,
	}
}

// heldFor is how long the holder has been there; 0: not known.
func (e *evidence) heldFor() time.Duration {
	if e.heldSince.IsZero() {
		return 0
	}
	return time.Since(e.heldSince)
}

// verdict is the error for a caller that joined the line at that time and gives up. Only
// a store that was asked can be silent, and only since it was: before, the caller waited
// for those in front. A store that told them to wait owes no further word, however long
// ago that was: it answers when the key is free, or when it finds itself out.
func (e *evidence) verdict(key string, joined time.Time, fair time.Duration) error {
	heard := min(time.Since(e.silent), time.Since(joined)) // of the silence, by the caller
	switch {
	case e.outage != nil:
		return e.outage
	case e.unanswered == 0, !e.answered.Before(joined), heard < fair && e.silent.After(joined):
		held := e.holder(key)
		return &held
	case heard < fair: // however long the caller has waited in other lines
		return &driver.UnavailableError{Op: "acquire", Err: fmt.Errorf("%w, while waiting in line", ErrHurried)}
	}
	return &driver.UnavailableError{Op: "acquire", Err: errors.New("no answer while waiting in line")}
}
