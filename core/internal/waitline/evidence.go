package waitline

import (
	"errors"
	"fmt"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/internal/circuit"
)

// evidence is what the store last said about a key. A caller that gives up in line has not
// asked the store itself. The evidence says whether it waited for a holder or for a silent
// store.
type evidence struct {
	unanswered  int       // number of requests under way without an answer
	silentSince time.Time // since when one of them has been unanswered; zero: no silence
	answeredAt  time.Time // when the store last answered
	held        holding   // what this answer said of the holder
	outage      error     // set if the last answer was that the store is out
}

// holding is what is known of a holder; zero: nothing. It is not a [driver.HeldError], which is more
// than twice as large: each key that is held for a while has a line.
type holding struct {
	owner, trace string
	retryAfter   time.Duration
	since        time.Time // about when it got the key; zero: unknown
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
// lasted for [circuit.FairTime] by now goes on.
func (e *evidence) requestOver() {
	e.unanswered--
	if e.unanswered == 0 && time.Since(e.silentSince) < circuit.FairTime {
		e.silentSince = time.Time{}
	}
}

// nobodyAsks notes that all admitted callers wait in other lines. From now on the callers behind them wait
// for holders. An outage or a silence that somebody met before says nothing of the store any more: it
// could be long over, and work would run unlocked because of it.
func (e *evidence) nobodyAsks() { e.outage, e.silentSince = nil, time.Time{} }

// heard notes that the store answered, and whom it named as the holder.
func (e *evidence) heard(held driver.HeldError, now time.Time) {
	e.answeredAt, e.outage, e.silentSince = now, nil, time.Time{}
	e.held = holding{owner: held.Holder, trace: held.Trace, retryAfter: held.RetryAfter}
	if held.HeldFor > 0 {
		e.held.since = now.Add(-held.HeldFor)
	}
	if e.unanswered > 0 {
		e.silentSince = e.answeredAt
	}
}

// handedTo notes who has the key now, and since when.
func (e *evidence) handedTo(owner, trace string, since time.Time) {
	e.held = holding{owner: owner, trace: trace, since: since}
}

// released notes that the holder in this process has released the key.
func (e *evidence) released() { e.held = holding{} }

// holder returns what is known of the holder that the callers in line wait for.
func (e *evidence) holder(key string) driver.HeldError {
	return driver.HeldError{
		Key: key, Holder: e.held.owner, Trace: e.held.trace,
		RetryAfter: e.held.retryAfter, HeldFor: e.heldFor(), Local: true,
	}
}

// heldFor is how long the holder has had the key; 0: unknown.
func (e *evidence) heldFor() time.Duration {
	if e.held.since.IsZero() {
		return 0
	}
	return time.Since(e.held.since)
}

// verdict returns the error for a caller that began to wait then, joined this line at that time, and
// gives up. Only a store that was asked can be silent, and only from the request on: before, the caller
// waited for those in front, or in other lines. After the store told them to wait, its silence is no
// outage, however long it lasts. It answers again when the key is free, or when it finds that it is out.
func (e *evidence) verdict(key string, began, joined time.Time) error {
	silence := time.Since(e.silentSince)
	switch {
	case e.outage != nil:
		return e.outage
	case e.unanswered == 0, !e.answeredAt.Before(joined), silence < circuit.FairTime && e.silentSince.After(began):
		held := e.holder(key)
		return &held
	case min(silence, time.Since(joined)) < circuit.FairTime: // the part that this caller was there for
		return &driver.UnavailableError{Op: "acquire", Err: fmt.Errorf("%w, while waiting in line", ErrHurried)}
	}
	return &driver.UnavailableError{Op: "acquire", Err: errors.New("no answer while waiting in line")}
}
