package core

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// lines holds one line of callers per key of this process. Who comes first asks
// the store, and the others wait here until they are called forward: one after
// the other where they want the key exclusively, some together where they share
// it. So the store's own queue for a key stays short, however many goroutines
// want it. Step says who is called forward when.
type lines struct {
	most      int // callers per line
	mostTotal int // callers that wait, in all lines

	mu      sync.Mutex
	byKey   map[string]*line
	sweepAt int // how many lines call for a sweep
	spare   []*line
	waiting int  // callers in all lines that were not called forward yet
	closed  bool // nobody is let in any more
}

// line also keeps what the store last told those who asked, because those who
// time out behind them must say whether a holder or a silent store kept them
// waiting.
type line struct {
	tickets queue
	next    *ticket // the first who was not called forward yet; nil: all were
	forward int     // who were
	here    int     // of those: all but who wait for another of their keys
	open    Mode    // the last word was a grant of this mode; exclusive: it was none to share

	streak streak // the key goes from hand to hand

	alarm *time.Timer // has those give up who wait for too long; nil: nobody has waited
	rings time.Time   // when; zero: it does not
	rang  time.Time   // last

	lines      *lines
	unanswered int       // requests to the store without a word since
	silent     time.Time // since when that is so, of one at least; zero: it is not
	answered   time.Time // when the store last answered
	held       HeldError // who was in the way then
	heldSince  time.Time // since when, about; zero: not known
	outage     error     // set while the last answer was that the store is out
}

// ticket is one caller's place in a line.
type ticket struct {
	claim  Claim
	once   bool  // a record will do as well as the lease
	line   *line // nil: it has left
	ahead  int   // callers in front when it joined
	joined time.Time
	turn   chan struct{} // closed when it is to go on; nil: it was called forward at once
	until  time.Time     // when it gives up; zero: never
	given  given         // the answer, instead of a turn

	heir  time.Duration // with which TTL it takes a grant from a holder; 0: it does not
	trace string        // for those who wait for it then

	woken     bool // turn is closed
	late      bool // because it has waited long enough, or the engine closes
	called    bool
	elsewhere bool // it waits for another of its keys
	asking    bool // it asked the store, which has said nothing

	before, behind *ticket // in line
}

// queue is tickets in order of arrival. It is no container/list because that
// allocates for each what a ticket can have in itself.
type queue struct {
	first, last *ticket
	n           int
}

func (q *queue) push(t *ticket) {
	t.before = q.last
	if q.last == nil {
		q.first = t
	} else {
		q.last.behind = t
	}
	q.last = t
	q.n++
}

func (q *queue) remove(t *ticket) {
	if t.before == nil {
		q.first = t.behind
	} else {
		t.before.behind = t.behind
	}
	if t.behind == nil {
		q.last = t.before
	} else {
		t.behind.before = t.before
	}
	t.before, t.behind = nil, nil
	q.n--
}

// given is what a caller may get from another one of this process.
type given struct {
	rec   *driver.Record
	grant heldGrant
	from  string // the trace of who had the grant before
}

// places are one caller's, in key order, one per claim.
type places []*ticket

func newLines(most, mostTotal int) *lines {
	return &lines{most: most, mostTotal: mostTotal, byKey: make(map[string]*line)}
}

// enter waits until the caller may ask the store, for all claims; it then owes a
// leave. The lines are entered in key order, so that two sets can't wait for each
// other. Instead it may be given, in its ticket, the record that a twin in this
// process made or was given, with once; or, as an heir, the grant of a holder. The
// error is a *TooManyWaitersError or, when ctx ended first, a *HeldError or one that
// matches ErrUnavailable. Who does not wait has no places.
func (ls *lines) enter(by *turn) error {
	for i, t := range by.places {
		if err := ls.join(by, i); err != nil {
			ls.leave(by.places[:i], errSilent, time.Time{})
			return err
		}
		if t.turn == nil {
			continue
		}
		by.waited = true
		trace := by.stands(t)
		var err error
		if !by.await(t) {
			err = by.quit(i)
		}
		if by.accepts(t, trace) { // where both came, this is worth more than the error
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// join has the caller take the last place in the line for claim i. Whoever then has
// to wait there keeps nobody else waiting with the places before, which are for
// other keys.
//
// The cap on all lines refuses only those that would wait behind others: a flood on
// some keys must not shut out the callers of the rest.
func (ls *lines) join(by *turn, i int) error {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	t, before := by.places[i], by.places[:i]
	key := t.claim.Key
	l := ls.byKey[key]
	switch {
	case ls.closed:
		return ErrClosed
	case l != nil && l.tickets.n >= ls.most:
		return &TooManyWaitersError{Key: key, Limit: ls.most}
	case l == nil:
		l = ls.open(key)
	}
	ls.waiting++
	t.line, t.ahead, t.joined = l, l.tickets.n, by.asked
	if len(before) > 0 {
		t.joined = time.Now() // it may have waited in the lines before
	}
	l.tickets.push(t)
	if l.next == nil {
		l.next = t
		l.step()
	}
	switch {
	case !t.called && t.ahead > 0 && ls.waiting > ls.mostTotal: // itself included
		ls.remove(t)
		return &TooManyWaitersError{Limit: ls.mostTotal}
	case !t.called:
		t.turn = make(chan struct{})
		t.until = by.bound.start(by.asked)
		l.expect(t)
		for _, b := range before {
			b.goElsewhere()
		}
	case len(by.places) == 1: // and asks at once; see asks for the others
		t.ask(by.asked)
	}
	return nil
}

// asks notes that the caller, who had to wait or has several places, now asks the
// store.
func (ls *lines) asks(p places, now time.Time) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, t := range p {
		t.comeBack()
		t.ask(now)
	}
}

// errSilent stands for what a store said that was not asked, or cut short.
var errSilent = errors.New("keyturn: the store said nothing")

// leave gives up the places and calls forward who can now ask. said is the
// store's answer, and when it came; without one there is none.
func (ls *lines) leave(p places, said error, answered time.Time) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	var held HeldError // where the key was granted, who is in the way now is not known yet
	var at *ticket
	if said != nil {
		held = ls.inHand(heldBy(said))
		at = p.of(held.Key)
	}
	for _, t := range p {
		l := t.line
		if l == nil {
			continue
		}
		switch {
		case said == nil:
			t.heard(held, at, answered)
			l.open = t.claim.Mode
			ls.begin(t)
		case said == errSilent, errors.Is(said, context.Canceled), errors.Is(said, context.DeadlineExceeded):
		case errors.Is(said, ErrUnavailable):
			l.outage = said
		default:
			t.heard(held, at, answered)
		}
		ls.remove(t)
		l.step()
		ls.tidy(t.claim.Key, l)
	}
}

// remove takes t out of its line, which is to be tidied when that is settled.
func (ls *lines) remove(t *ticket) {
	l := t.line
	t.hangUp()
	if t.called {
		l.forward--
		if !t.elsewhere {
			l.here--
		}
	} else {
		ls.waiting--
		if l.next == t {
			l.next = t.behind
		}
	}
	l.tickets.remove(t)
	t.line = nil
}

// spareLines is how many lines are kept for other keys.
const spareLines = 64

func (ls *lines) open(key string) *line {
	ls.sweep()
	var l *line
	if n := len(ls.spare); n > 0 {
		l, ls.spare = ls.spare[n-1], ls.spare[:n-1]
	} else {
		l = &line{lines: ls}
	}
	ls.byKey[key] = l
	return l
}

// sweepFloor is how many lines there may be without a sweep.
const sweepFloor = 1024

// sweep takes away the lines in which nobody is, and that stand for leases which
// have been held for too long to be handed on, once there are twice as many as the
// last one left: a lease that is held for hours costs no line then, and the
// sweeps a constant per lease.
func (ls *lines) sweep() {
	if len(ls.byKey) < max(ls.sweepAt, sweepFloor) {
		return
	}
	now := time.Now()
	for key, l := range ls.byKey {
		if l.tickets.n == 0 && now.After(l.streak.until) {
			l.streak = streak{}
			ls.tidy(key, l)
		}
	}
	ls.sweepAt = 2 * len(ls.byKey)
}

// tidy takes key's line away if nobody needs it.
func (ls *lines) tidy(key string, l *line) {
	if l.tickets.n > 0 || l.streak.owner != "" {
		return
	}
	delete(ls.byKey, key)
	if len(ls.spare) < spareLines && !ls.closed {
		*l = line{lines: ls, alarm: l.alarm, rings: l.rings} // which does no harm to another key's
		ls.spare = append(ls.spare, l)
	} else {
		l.silence()
	}
}
