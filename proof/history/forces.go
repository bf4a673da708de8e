package history

import (
	"maps"
	"slices"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// force is a ForceRelease in the history.
type force struct {
	key    string
	began  int64
	ended  int64    // when it was answered; without an answer, when it can no longer be carried out
	known  bool     // it was answered
	only   bool     // it was for these owners only
	owners []string // the holders at that moment, or those that it was for
}

// onItsWay is longer than a request that nobody waits for any more stays in the network of one
// machine.
const onItsWay = int64(time.Second)

// forces returns the forced releases of a history.
func forces(events []Event, died map[int]int64) []force {
	type id struct{ process, nr int }
	byID := map[id]*force{}
	for _, e := range events {
		f := byID[id{e.Process, e.Nr}]
		switch {
		case e.What == Forcing:
			end, ok := died[e.Process]
			if !ok {
				end = Never - onItsWay
			}
			byID[id{e.Process, e.Nr}] = &force{key: e.Claims[0].Key, began: e.At, ended: end + onItsWay, only: len(e.Owners) > 0, owners: e.Owners}
		case e.What == Forced:
			f.ended, f.known, f.owners = e.At, true, e.Owners
		case f != nil: // Unsure; or Denied, which may be about its second copy
			f.ended = e.At + onItsWay
		}
	}
	var all []force
	for f := range maps.Values(byID) {
		all = append(all, *f)
	}
	return all
}

// apply notes what f does to s. The owner says from whom f took the key. It stays the same
// through a streak of hand-offs, so a lease that is handed on after f does not count.
func (f force) apply(s *Section) {
	_, has := s.on(f.key)
	hit := s.Given < f.ended
	if f.known || f.only { // however late it is carried out
		hit = slices.Contains(f.owners, s.Owner)
	}
	if !has || !hit {
		return
	}
	s.Taken = min(s.Taken, f.began)
	if f.known && s.Given < f.began {
		s.Told = min(s.Told, f.ended)
	}
}

// lost checks that a lease that was taken by force was lost: nobody renewed it, and nobody
// released it (N2, R2, I7). A store that loses data may forget the forced release. One that was slow to
// answer a release may have been asked twice, and then can't tell a loss from its own work (R2).
func lost(sections []Section, losses []Loss) error {
	for _, s := range sections {
		switch {
		case s.Told == Never:
		case slices.ContainsFunc(losses, func(l Loss) bool { return l.meets(s, s.Until) && s.Told < l.To }):
		case s.Until > s.Told+int64(s.TTL):
			return wrong(s.Claims[0].Key, s, s, "%s was renewed, until %d, after it had been taken away at %d", s, s.Until, s.Told)
		case s.Outcome == Returned && s.Returning > s.Told && s.Answered-s.Returning < repeatsAfter && !s.mayBeHandedOn():
			return wrong(s.Claims[0].Key, s, s, "%s was given back after it had been taken away at %d", s, s.Told)
		}
	}
	return nil
}

// repeatsAfter is after how long a store may have sent a request again because it had no answer.
const repeatsAfter = int64(40 * time.Millisecond)

// mayBeHandedOn reports whether the release of s may have been a hand-off, which the store does
// not see.
func (s Section) mayBeHandedOn() bool {
	return len(s.Claims) == 1 && s.Claims[0].Mode == driver.ModeExclusive && s.Shared == Never
}
