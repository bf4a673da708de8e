package watchdog

import (
	"slices"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// state is the state of a lease.
type state uint8

const (
	fresh     state = iota // no grant yet
	held                   // in force, by the store's last answer
	renewing               // a request to the store is under way
	uncertain              // the last request failed; the store may have carried it out
	lost
	released
)

// term is how long one lease lasts and what the store is asked for it. It has no lock
// and does no I/O: its shard's mutex guards it.
//
//	from                       event                               to         method
//	fresh                      the grant came                      held       begin
//	held, uncertain            a renewal, Extend or Downgrade      renewing   request
//	                           is about to be sent
//	renewing                   the store did it                    held       confirm
//	renewing                   error, silence                      uncertain  fail
//	held, renewing, uncertain  its time is over, or the store or   lost       end
//	                           the engine said that it has ended
//	held, renewing, uncertain  the holder is done                  released   end
//	released                   the store says it was lost before   lost       correct
//
// An answer that comes after the end changes nothing. Of one lease one request is under
// way at a time: otherwise nobody could tell which of two terms the store took last.
type term struct {
	state   state
	shared  bool    // another process renews the lease, too, with this TTL
	convert bool    // the store has not confirmed the new modes of claims yet
	early   float32 // by which share of an earliest it is renewed before a third of the term is over
	why     error   // why the lease ended; nil before that

	// The terms that a renewal asks for.
	given *driver.Grant // as it was granted; never written to
	ttl   time.Duration // changed by Extend
	asked *asked        // what Extend and Downgrade have asked for; nil: nothing

	// Until when it lasts.
	length    time.Duration // of the present term; for some grants shorter than ttl at first
	since     time.Time     // the moment that the present term counts from
	drift     time.Duration // the clock's drift when the request was sent from which at counts
	at        moment        // the lease is lost if it is not renewed by then
	heard     moment        // when the store last said that the lease is in force
	renewAt   moment
	holdUntil moment // 0: no max hold
}

// asked is what was asked of the store besides further terms, answered or not.
type asked struct {
	claims   []driver.Claim // in their present modes; nil: as granted
	shortest time.Duration  // of the TTLs; 0: none
	longest  time.Duration
}

// Margin is how much earlier than the backend this side counts a lease as over. It covers
// clocks of different speeds, and the time between a look at the clock and the act.
func Margin(ttl time.Duration) time.Duration { return ttl/100 + 2*time.Millisecond }

// firstRenewal is how soon after the grant a lease with a first term of its own
// ([driver.Grant.Term]) is renewed: see "First terms" in the package's comment.
const firstRenewal = 10 * time.Millisecond

// begin starts a grant's first term, of which much may be over already.
func (t *term) begin(g *driver.Grant, heard time.Time, c *clock) {
	t.state, t.given = held, g
	t.ttl, t.shared, t.heard = g.TTL, g.Borrowed, c.moment(heard)
	length := g.TTL
	if g.Term > 0 {
		length = min(g.Term, g.TTL)
	}
	t.count(length, g.Since, c)
	if g.Term > 0 {
		now := c.moment(time.Now())
		t.renewAt = now + min(moment(firstRenewal), (t.at-now)/3)
	}
}

// earliest is the part of a term by which renewals may come before its third is over. The engines
// of a fleet that were granted leases at the same moment, as after an outage, would otherwise renew
// them at the same moments for as long as they hold them.
const earliest = 24

// count starts a term at the moment before the request was sent. The backend's own term begins
// later, so it ends later.
func (t *term) count(length time.Duration, sent time.Time, c *clock) {
	t.length, t.since, t.drift = length, sent, c.drift(sent)
	from := c.moment(sent)
	t.at = from.add(length - Margin(length))
	t.renewAt = from.add(length/3 - time.Duration(float64(t.early)*float64(length/earliest)))
}

// change is what a request asks for in addition to another term. The zero value is nothing.
type change struct {
	ttl    time.Duration  // 0: the present TTL
	claims []driver.Claim // the claims in other modes; nil: in the present ones
}

// request notes that a request to the store is about to be sent, and returns the grant to send.
func (t *term) request(ch change) driver.Grant {
	t.state = renewing
	if ch.claims != nil && !slices.Equal(t.claims(), ch.claims) {
		t.note().claims, t.convert = ch.claims, true
	}
	g := t.current()
	if ch.ttl != 0 {
		g.TTL = ch.ttl
		a := t.note()
		a.longest = max(a.longest, ch.ttl)
		if a.shortest == 0 || ch.ttl < a.shortest {
			a.shortest = ch.ttl
		}
	}
	return g
}

// note returns where to note what is asked for.
func (t *term) note() *asked {
	if t.asked == nil {
		t.asked = new(asked)
	}
	return t.asked
}

// claims returns the claims in their present modes.
func (t *term) claims() []driver.Claim {
	if t.asked != nil && t.asked.claims != nil {
		return t.asked.claims
	}
	return t.given.Claims
}

// confirm notes that the store gave the lease the TTL that it was asked for.
func (t *term) confirm(ttl time.Duration, sent time.Time, c *clock) {
	t.state, t.convert, t.heard = held, false, c.moment(sent)
	if !t.shared { // otherwise it was carried to another process during an Extend, and keeps its TTL
		t.ttl = ttl
	}
	t.count(min(t.ttl, ttl), sent, c)
}

// fail notes that nobody knows whether the store gave the lease that TTL. Either of two ends
// may be in force there, so the earlier one counts.
func (t *term) fail(ttl time.Duration, sent, answered time.Time, c *clock) {
	t.state = uncertain
	if at := c.moment(sent).add(ttl - Margin(ttl)); at < t.at {
		t.since = t.since.Add(time.Duration(at - t.at))
		t.at, t.drift = at, c.drift(sent)
	}
	t.renewAt = c.moment(answered).add(min(t.length, t.ttl, ttl) / 10)
}

// end ends the lease for good. Only the first call counts.
func (t *term) end(s state, why error) {
	if t.why == nil {
		t.state, t.why = s, why
	}
}

// correct notes a loss that the answer to the release revealed.
func (t *term) correct(why error) { t.state, t.why = lost, why }

// overdue returns why the lease is over at this moment, or "".
func (t *term) overdue(now time.Time, c *clock) driver.LossReason {
	at, slept := c.moment(now), c.drift(now)-t.drift
	switch {
	case at >= t.at:
		return driver.LossExpired
	case at.add(slept) >= t.at:
		return driver.LossSuspended
	case t.holdUntil != 0 && at >= t.holdUntil:
		return driver.LossMaxHold
	}
	return ""
}

// due reports whether a renewal has to be sent by then.
func (t *term) due(by moment) bool { return t.state != renewing && t.renewAt <= by }

// joins reports whether the lease is renewed early, in a batch that leaves now. An uncertain
// lease does not join, or it would be retried without a pause. Nor does a lease in its short
// first term, which may end without a renewal.
func (t *term) joins(now moment) bool {
	return t.state == held && t.length >= t.ttl && t.due(now.add(t.ttl/8))
}

// next is when somebody has to look at the lease again.
func (t *term) next() moment {
	next := t.at
	if t.state != renewing {
		next = min(next, t.renewAt)
	}
	if t.holdUntil != 0 {
		next = min(next, t.holdUntil)
	}
	return next
}

// left is the length of the term that a request sent now may count on. Much of a first term may
// be over.
func (t *term) left(now moment) time.Duration {
	if t.length < t.ttl {
		return min(t.length, time.Duration(t.at-now)*3/2)
	}
	return t.length
}

// current is the grant with what has changed since it was given. Since and Term are those of
// the present term, so that a store can tell whether the lease has run out.
func (t *term) current() driver.Grant {
	g := *t.given
	g.TTL, g.Claims, g.Since, g.Term = t.ttl, t.claims(), t.since, 0
	if t.length < t.ttl {
		g.Term = t.length // not renewed yet
	}
	return g
}

// mostAsked is the longest TTL that the store may give the lease by a request sent so far.
func (t *term) mostAsked() time.Duration {
	if t.asked == nil {
		return t.ttl
	}
	return max(t.ttl, t.asked.longest)
}

// rest is what is left when the lease is released.
func (t *term) rest(now time.Time, c *clock) Rest {
	return Rest{
		Grant:     t.current(),
		Longest:   t.mostAsked(),
		Heard:     c.time(t.heard, now),
		At:        now,
		Unchanged: !t.shared && t.asked == nil,
	}
}
