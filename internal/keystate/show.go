package keystate

import (
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
	held.Holder, held.Trace = last.Owner, last.Trace
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

// Force ends the leases on k that only names, or all without only, and returns their holders. The reason is
// for their owners, and the store keeps it. The error is a [*driver.HeldError] if others hold the key.
func (s *State) Force(k *Key, reason string, only []driver.Holder) ([]driver.Holder, error) {
	if err := s.settle(k); err != nil {
		return nil, err
	}
	gone := driver.Named(s.Holders(k), only)
	if len(gone) == 0 && len(k.holders) > 0 {
		return nil, s.Held(k)
	}
	for _, h := range gone {
		s.want(k)
		s.Forced = append(s.Forced, Forced{Key: k.Name, Owner: h.Owner, Token: h.Token, Reason: reason})
		k.Remove(k.Find(h.Owner))
	}
	return gone, s.settle(k)
}

// Show is what a store shows of a key. It changes nothing except what time has changed.
func (s *State) Show(k *Key) driver.LockInfo {
	k.expire(s.Now)
	info := driver.LockInfo{Key: k.Name, Mode: k.Mode, Holders: s.Holders(k)}
	for _, w := range k.Waiters() {
		info.Waiters = append(info.Waiters, driver.Waiter{
			Owner: w.Owner, Mode: w.Mode, Permits: w.Permits, Rule: w.Rule, Trace: w.Trace, Waited: s.since(w),
		})
	}
	if r := k.Record; r != nil {
		info.Record = &driver.RecordInfo{
			Owner: r.Owner, Size: len(r.Result), ResultNotKept: r.ResultNotKept, Trace: r.Trace, Left: r.Until.Sub(s.Now),
		}
	}
	return info
}

// Holders shows the leases in force.
func (s *State) Holders(k *Key) []driver.Holder {
	var holders []driver.Holder
	for _, m := range k.holders {
		holders = append(holders, driver.Holder{
			Owner: m.Owner, Token: m.Token, Rule: m.Rule, Trace: m.Trace, HeldFor: s.since(m), Left: m.Until.Sub(s.Now), Lingers: m.Lingers(),
		})
	}
	return holders
}

func (s *State) since(m *Member) time.Duration { return max(0, s.Now.Sub(m.Since)) }
