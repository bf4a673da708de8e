package waitline

import (
	"errors"
	"fmt"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// evidence is what the store last said about a key. A caller that gives up in line has not
// asked the store itself. The evidence says whether it waited for a holder or for a silent
// store.
type evidence struct {
	unanswered  int              // number of requests under way without an answer
	silentSince time.Time        // since when one of them has been unanswered; zero: no silence
	answeredAt  time.Time        // when the store last answered
	held        driver.HeldError // the holder that this answer named
	heldSince   time.Time        // about when it got the key; zero: unknown
	outage      error            // set if the last answer was that the store is out
}

// ErrHurried says that the caller left hardly any time for an answer. An outage that wraps it
// concerns this caller only.
var ErrHurried = errors.New("the caller's time was too short for an answer")

// requestSent notes that a request was sent.
func (e *evidence) requestSent(now time.Time) {
	e.unanswered++
	if e.silentSince.IsZero() {
		e.silentSince = now
	}
}

// requestOver notes that nobody waits for the answer to a request any more. A silence that has
// lasted for fair by now goes on.
func (e *evidence) requestOver(fair time.Duration) {
	e.unanswered--
	if e.unanswered == 0 && time.Since(e.silentSince) < fair {
		e.silentSince = time.Time{}
	}
}

// heard notes that the store answered, and whom it named as the holder.
func (e *evidence) heard(held driver.HeldError, now time.Time) {
	e.answeredAt, e.held, e.outage, e.silentSince = now, held, nil, time.Time{}
	e.heldSince = time.Time{}
	if held.HeldFor > 0 {
		e.heldSince = now.Add(-held.HeldFor)
	}
	if e.unanswered > 0 {
		e.silentSince = e.answeredAt
	}
}

// handedTo notes who has the key now, and since when.
func (e *evidence) handedTo(key, owner, trace string, since time.Time) {
	e.held, e.heldSince = driver.HeldError{Key: key, Holder: owner, Trace: trace}, since
}

// released notes that the holder in this process has released the key.
func (e *evidence) released() { e.held, e.heldSince = driver.HeldError{}, time.Time{} }

// holder returns what is known of the holder that the callers in line wait for.
func (e *evidence) holder(key string) driver.HeldError {
	return driver.HeldError{
		Key: key, Holder: e.held.Holder, Trace: e.held.Trace,
		RetryAfter: e.held.RetryAfter, HeldFor: e.heldFor(), Local: true,
	}
}

// heldFor is how long the holder has had the key; 0: unknown.
func (e *evidence) heldFor() time.Duration {
	if e.heldSince.IsZero() {
		return 0
	}
	return time.Since(e.heldSince)
}

// verdict returns the error for a caller that joined the line at that time and gives up. Only a
// store that was asked can be silent, and only from the request on: before, the caller waited
// for those in front. After the store told them to wait, its silence is no outage, however long
// it lasts. It answers again when the key is free, or when it finds that it is out.
func (e *evidence) verdict(key string, joined time.Time, fair time.Duration) error {
	silence := min(time.Since(e.silentSince), time.Since(joined)) // the part that this caller was there for
	switch {
	case e.outage != nil:
		return e.outage
	case e.unanswered == 0, !e.answeredAt.Before(joined), silence < fair && e.silentSince.After(joined):
		held := e.holder(key)
		return &held
	case silence < fair: // however long the caller has waited in other lines
		return &driver.UnavailableError{Op: "acquire", Err: fmt.Errorf("%w, while waiting in line", ErrHurried)}
	}
	return &driver.UnavailableError{Op: "acquire", Err: errors.New("no answer while waiting in line")}
}
