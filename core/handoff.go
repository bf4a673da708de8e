package core

import (
	"context"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// Hand-off: a lease that is released while others of this process wait for the
// key goes to the first of them without a word to the store, if it has said lately
// that the lease is in force; otherwise it is asked. The store knows one
// grant with one token; the low bits of the lease's token count the hands. So a
// hot key costs its process a fraction of the round trips, and the tokens of the
// key still never go back. (Lock cohorting: D. Dice, V. Marathe and
// N. Shavit, Lock Cohorting: A General Technique for Designing NUMA Locks, 2012.)
//
// A streak of hand-offs is bounded, so that other processes get their turn. If
// the store says that one of them waits, it ends with those who stood in line
// when the grant came; else after a while, because by then one may have come.
const (
	// mostHandoffs is how many a grant is good for: what its token can count.
	mostHandoffs = 1<<TokenBits - 1
	// fairHandoffs is how many there are at most while another process waits.
	fairHandoffs = 64
	// streakTime is how long another process that came meanwhile may have to wait
	// for a streak's end; also, how long a caller waits for a hand-off before it
	// gets into the store's queue.
	streakTime = 100 * time.Millisecond
	// sureTime is for how long after its last word the store is believed to have the
	// lease still. It may have lost it (DEL, FLUSHALL, a failover), and granted the
	// key to another process: the heir would work beside that one, and under a
	// smaller token than one which was given before. Sections of a millisecond or
	// less ask once in many hands, and longer ones do not notice a round trip.
	sureTime = 10 * time.Millisecond
)

// streak is the time for which the key of a line goes from hand to hand. The
// zero value is none.
type streak struct {
	owner  string // of the grant; "": none
	trace  string // of who has it now
	passed uint64 // which token has been given: the grant's and so many
	left   int    // hand-offs
	until  time.Time
	open   bool        // who is next asks the store: it is over after this one
	timer  *time.Timer // opens it while somebody waits; nil: nobody did
}

// heir says whether the grant of a request may be handed on, and to whom: from
// one plain exclusive lease on a key to the next.
func (s *settings) heir(claims []Claim) bool {
	return !s.once && len(claims) == 1 && claims[0].Mode == ModeExclusive
}

// begin starts a streak with the grant that t just got. Needs mu.
func (ls *lines) begin(t *ticket) {
	l, g := t.line, t.given.grant
	if g.line == nil {
		return
	}
	n := mostHandoffs
	if g.Contended {
		n = min(n, fairHandoffs, l.tickets.n-1)
	}
	if n <= 0 {
		return
	}
	from := g.Since
	if g.Term > 0 {
		from = time.Now() // Since is when it asked, which may be long ago
	}
	l.streak = streak{owner: g.Owner, trace: t.trace, left: n, until: from.Add(min(streakTime, g.term()/3))}
	l.held, l.heldSince = HeldError{Key: t.claim.Key, Holder: g.Owner, Trace: t.trace}, from
}

// waits says whether who is next in line waits for a hand-off, and has somebody
// call it forward if none comes in time. Needs mu.
func (l *line) waits() bool {
	s := &l.streak
	if s.owner == "" || s.open {
		return false
	}
	if s.timer == nil {
		lines, owner := l.lines, s.owner // by then the line may be another key's
		s.timer = time.AfterFunc(time.Until(s.until), func() { lines.expire(l, owner) })
	}
	return true
}

// expire opens a streak that took too long.
func (ls *lines) expire(l *line, owner string) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l.streak.owner == owner {
		l.streak.open = true
		l.step()
	}
}

// handOn gives g, which its holder is done with, to the first in line, and reports
// whether it could. If the store's last word about g is too old it is asked first: by
// a renewal, since an heir has use for one.
func (e *Engine) handOn(in *within, g heldGrant) bool {
	passed, ask := e.lines.pass(g, false)
	if !ask {
		return passed
	}
	ctx, cancel := context.WithTimeout(in.context(), streakTime) // then it is over, and the release takes its turn
	defer cancel()
	sent := time.Now()
	err := errNoAnswer
	if errs := e.store.Renew(ctx, []driver.Grant{g.Grant}); len(errs) == 1 {
		err = errs[0]
	}
	e.circuit.Learn(g.Claims, err)
	e.storeCalled("renew", sent, err)
	if err != nil {
		return false // if it is lost, the release says so
	}
	g.Since, g.Term, g.heard = sent, 0, time.Now()
	passed, _ = e.lines.pass(g, true)
	return passed
}

// pass gives g to the first in line, and reports whether it could; ask says that it
// could if the store confirmed that it still has g. Sure says that it did just now.
func (ls *lines) pass(g heldGrant, sure bool) (passed, ask bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := g.line
	if l == nil || !l.streak.has(g) || l.streak.open || l.next == nil {
		return false, false
	}
	t := l.next
	now := time.Now()
	switch {
	case !t.inherits(g.TTL), now.After(l.streak.until), now.Sub(g.Since) > g.heritable():
		return false, false
	case !sure && now.Sub(g.heard) > sureTime:
		return false, true
	}
	g.passed++
	t.given.grant, t.given.from = g, l.streak.trace
	l.streak.passed = g.passed
	l.streak.left--
	l.streak.open = l.streak.left == 0
	l.streak.trace, l.held.Trace, l.heldSince = t.trace, t.trace, now
	ls.remove(t)
	t.wake()
	l.step() // the last one's successor may get into the store's queue now
	return true, false
}

// inherits says whether a lease with that TTL will do, which an heir can't choose:
// one about as long as it asked for.
func (t *ticket) inherits(ttl time.Duration) bool {
	return t.heir < 2*ttl && ttl < 2*t.heir
}

func (s *streak) has(g heldGrant) bool {
	return s.owner != "" && s.owner == g.Owner && s.passed == g.passed
}

// over ends the streak that g is the present hand of, now that its lease has
// ended. Who is next asks the store.
func (ls *lines) over(g heldGrant) {
	l := g.line
	if l == nil {
		return
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if !l.streak.has(g) { // or by now the line is another key's
		return
	}
	if l.streak.timer != nil {
		l.streak.timer.Stop()
	}
	l.streak, l.held, l.heldSince = streak{}, HeldError{}, time.Time{}
	l.step()
	ls.tidy(g.Claims[0].Key, l)
}

// heritage is a grant as the next holder may have it, if there may be one.
type heritage struct {
	grant heldGrant
	any   bool
}

// heritage is none of a lease that another process may work under, or that is not
// what it was when it was granted; also not while an extension may be on its way to
// the store. Needs the watchdog's mutex.
func (l *Lease) heritage() heritage {
	d := &l.deadline
	if d.shared || d.least > 0 || len(d.claims) != 1 || d.claims[0].Mode != ModeExclusive {
		return heritage{}
	}
	g := l.grant
	g.Since = d.at.Add(margin(d.term) - d.term) // what the deadline counts from
	if g.Term = 0; d.term < g.TTL {
		g.Term = d.term // not renewed yet
	}
	g.heard = d.heard
	return heritage{g, true}
}

// giveBackGrant is for a grant that came to no lease: the next in line may have it,
// or else the store.
func (e *Engine) giveBackGrant(ctx context.Context, g heldGrant, rule string) {
	if passed, _ := e.lines.pass(g, false); passed {
		return
	}
	e.undo(ctx, g, rule)
	e.lines.over(g)
}
