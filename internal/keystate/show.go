package keystate

import (
	"crypto/sha1"
	"fmt"
	"strings"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// Held says who is in the way of a request for a key: the holder whose lease ends last. A store that does
// not know when leases end names the last one that came.
func (s *State) Held(k *Key) *driver.HeldError {
	held := &driver.HeldError{Key: k.Name}
	if len(k.holders) == 0 {
		return held
	}
	last, first := k.holders[0], k.holders[0]
	for _, m := range k.holders[1:] {
		if !m.Until.Before(last.Until) {
			last = m
		}
		if m.Until.Before(first.Until) {
			first = m
		}
	}
	held.Holder, held.Trace = Shown(last.Owner), Note(last.Trace)
	if s.Rules != nil && s.Untimed {
		return held
	}
	if !last.Lingers() { // otherwise only its engine knows since when its present user has had it (A12)
		held.HeldFor = max(0, s.Now.Sub(last.Since))
	}
	held.RetryAfter = max(0, last.Until.Sub(s.Now))
	if k.Mode == driver.ModePermit { // a place is free as soon as one holder has gone
		held.RetryAfter = max(0, first.Until.Sub(s.Now))
	}
	return held
}

// want notes that the lease on k is in somebody's way, or was taken by force.
func (s *State) want(k *Key) {
	if len(k.holders) > 0 && k.holders[0].Lingers() {
		h := k.holders[0]
		s.Wanted = &Wanted{Key: k.Name, Owner: h.Owner, Inbox: h.Inbox, Ref: h.Ref}
	}
}

// Show is what a store shows of a key. It changes nothing except what time has changed.
func (s *State) Show(k *Key) driver.LockInfo {
	k.expire(s.Now)
	info := driver.LockInfo{Key: k.Name, Mode: k.Mode, Holders: s.Holders(k)}
	for _, w := range k.Waiters() {
		info.Waiters = append(info.Waiters, driver.Waiter{
			Owner: Shown(w.Owner), Mode: w.Mode, Permits: w.Permits, Rule: Note(w.Rule), Trace: Note(w.Trace), Waited: s.since(w),
		})
	}
	if r := k.Record; r != nil {
		info.Record = &driver.RecordInfo{
			Owner: Shown(r.Owner), Size: len(r.Result), ResultNotKept: r.ResultNotKept, Trace: Note(r.Trace), Left: s.left(r.Until),
		}
	}
	return info
}

// Holders shows the leases in force.
func (s *State) Holders(k *Key) []driver.Holder {
	var holders []driver.Holder
	for _, m := range k.holders {
		holders = append(holders, driver.Holder{
			Owner: Shown(m.Owner), Token: m.Token, Rule: Note(m.Rule), Trace: Note(m.Trace), HeldFor: s.since(m), Left: s.left(m.Until), Lingers: m.Lingers(),
		})
	}
	return holders
}

// Shown is an owner as people see it. What somebody else wrote may be of any length: of an owner that is
// longer than ours, the beginning is shown, and a hash says which one it is.
func Shown(owner string) string {
	const beginning = 64
	if len(owner) <= driver.MaxOwnerBytes {
		return owner
	}
	return fmt.Sprintf("%s... (%d bytes, SHA-1 %x)", strings.ToValidUTF8(owner[:beginning], ""), len(owner), sha1.Sum([]byte(owner)))
}

// Note is a rule or a trace as people see it.
func Note(text string) string {
	if len(text) <= driver.MaxNoteBytes {
		return text
	}
	return strings.ToValidUTF8(text[:driver.MaxNoteBytes], "")
}

// left is how long what ends at until has left; 0 if only the backend knows.
func (s *State) left(until time.Time) time.Duration {
	if until.IsZero() {
		return 0
	}
	return until.Sub(s.Now)
}

func (s *State) since(m *Member) time.Duration { return max(0, s.Now.Sub(m.Since)) }
