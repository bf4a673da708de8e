package drivertest

import (
	"slices"

	"github.com/keyturn/keyturn/core/driver"
)

// records is what a check of executions needs, in a group of other checks.
var records = driver.Description{Ledger: true}

var shares = driver.Description{Shared: true}

var sharedChecks = []check{
	{name: "M1 shared leases are in force together", run: readersTogether, can: shares},
	{name: "M1 owners are told apart", run: ownersApart, can: shares},
	{name: "M1 shared and exclusive exclude each other", run: excludes(driver.Exclusive, driver.Shared), can: shares},
	{name: "M1 readers and writers do not overlap", run: func(s *scene) { s.takeTurns(3) }, can: shares},
	{name: "M1 readers and writers do not overlap, holders dying", run: func(s *scene) { s.takeTurnsDying(2) }, can: shares},
	{name: "M2 readers get behind a writer that waits", run: readersGetBehind, can: shares, ordered: true},
	{name: "M2 a stream of readers keeps no writer out", run: streamOfReaders, can: shares, ordered: true},
	{name: "M3 all readers that wait enter after a writer, the first writer after them", run: phases, can: shares, ordered: true},
	{name: "M3 phases after an expiry", run: phasesAfterExpiry, can: shares, ordered: true},
	{name: "M3 a stream of writers keeps no reader out", run: streamOfWriters, can: shares, ordered: true},
	{name: "A7 readers enter when the writer before them gives up", run: readersAfterGivenUp, can: shares, ordered: true},
	{name: "A7 a writer whose process died keeps no reader out", run: skipsDeadWriter, can: shares, needs: toCut},
	{name: "R2 a release touches no other reader's lease", run: readersKeepOff, can: shares},
	{name: "A9 a reader that gave up leaves nothing behind", run: func(s *scene) { s.leavesNothingInRace(driver.Shared) }, can: shares},
}

// readersTogether: readers in several processes each have a token of their own.
func readersTogether(s *scene) {
	stores := []driver.Store{s.open(), s.open(), s.open()}
	key := s.key()
	tokens := []uint64{s.released(stores[0], driver.Exclusive(key))}
	var readers []hold
	for i := range 9 {
		h := s.take(stores[i%3], long, driver.Shared(key))
		readers, tokens = append(readers, h), append(tokens, h.Token)
	}
	slices.Reverse(readers) // the first reader releases last
	for _, h := range readers {
		s.mustRenew(h)
		s.noRoom(stores[0], key, driver.Exclusive(key))
		s.mustRelease(h)
		s.isLostOnRelease(h.st, h.Grant)
	}
	s.rising(append(tokens, s.released(stores[1], driver.Exclusive(key))))
}

// ownersApart: a backend may keep fewer characters than owners may have.
func ownersApart(s *scene) {
	st := s.open()
	key, owner := s.key(), s.owner()
	var readers []hold
	for _, end := range []string{"e", "E", "\u00e9", "e\u0301", "\u00e8"} {
		req := s.ask(long, driver.Shared(key))
		req.Owner = owner + end
		readers = append(readers, s.takeBy(st, req))
	}
	for _, h := range readers {
		s.mustRenew(h)
		s.mustRelease(h)
	}
}

// released takes claims, gives them back and returns the token.
func (s *scene) released(st driver.Store, claims ...driver.Claim) uint64 {
	s.Helper()
	h := s.take(st, long, claims...)
	s.mustRelease(h)
	return h.Token
}

// excludes has each of two modes keep the other out, at once (A5) and with a wait.
func excludes(one, other func(key string) driver.Claim) func(*scene) {
	return func(s *scene) {
		s.exclude(one, other)
		s.exclude(other, one)
	}
}

func (s *scene) exclude(held, wanted func(key string) driver.Claim) {
	s.Helper()
	a, b := s.open(), s.open()
	key := s.key()
	h := s.take(a, long, held(key))
	for _, st := range []driver.Store{a, b} {
		s.isInTheWay(h, st, wanted(key))
	}
	w := s.queue(b, long, wanted(key))
	s.mustRenew(h)
	w.waits()
	s.mustRelease(h)
	next := w.granted(s.Late)
	s.noRoom(a, key, held(key))
	s.mustRelease(next)
	s.rising([]uint64{h.Token, next.Token, s.released(a, held(key))})
}

// readersKeepOff: owners with similar names renew and release a lease among others on the same
// key.
func readersKeepOff(s *scene) {
	a, b := s.open(), s.open()
	key := s.key()
	one, two := s.take(a, long, driver.Shared(key)), s.take(b, long, driver.Shared(key))
	for _, h := range []hold{one, two} {
		for _, g := range s.imposters(h.Grant, s.owner()) {
			s.isLost(s.renew(a, g))
			s.isLostOnRelease(a, g)
		}
	}
	s.mustRelease(two)
	s.mustRenew(one)
	s.isLost(s.renew(b, two.Grant))
	s.isLostOnRelease(b, two.Grant)
	s.noRoom(b, key, driver.Exclusive(key))
}
