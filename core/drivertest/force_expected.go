package drivertest

import (
	"github.com/keyturn/keyturn/core/driver"
)

// expects is what an operator who has seen h as a holder expects to end.
func (h hold) expected() driver.Holder { return driver.Holder{Owner: h.Owner, Token: h.Token} }

// forceExpected: by owner and token, and by the owner alone.
func forceExpected(s *scene) {
	a, b := s.open(), s.open()
	key := s.key()
	for _, token := range []bool{true, false} {
		h := s.lock(a, key, long)
		expected := h.expected()
		if !token {
			expected.Token = 0
		}
		had := s.force(b, key, someReason, expected)
		if len(had) != 1 || had[0].Owner != h.Owner || had[0].Token != h.Token {
			s.Errorf("the holder was said to be %+v, was %+v", had, h.Grant)
		}
		s.isForced(s.renew(a, h.Grant), someReason)
		next := s.lock(b, key, long)
		s.rising([]uint64{h.Token, next.Token})
		s.mustRelease(next)
	}
	if had := s.force(a, key, someReason, driver.Holder{Owner: s.owner(), Token: 1}); len(had) != 0 {
		s.Errorf("a free key was said to be held by %+v", had)
	}
}

// forceNotExpected: the lease that the operator saw has ended, and another has come, of
// another owner or with another token.
func forceNotExpected(s *scene) {
	a, b := s.open(), s.open()
	key := s.key()
	gone := s.lock(a, key, long)
	s.mustRelease(gone)
	h := s.lock(a, key, long)
	w := s.enqueue(b, key, long)
	other := h.expected()
	other.Token++
	for _, expected := range []driver.Holder{gone.expected(), other, {Owner: s.owner()}, {Owner: h.Owner + "0"}, {Owner: h.Owner[1:]}} {
		had, err := b.ForceRelease(s.ctx, key, someReason, expected)
		if len(had) != 0 {
			s.Errorf("%+v was ended instead of %+v", had, expected)
		}
		s.isHeld(err, key)
	}
	s.mustRenew(h)
	w.waits()
	s.mustRelease(h)
	s.mustRelease(w.granted(s.Late))
}

// forceOneReader: the others keep theirs, and a waiting writer waits for the last one. A reader
// that is not there any more makes no difference to one that is.
func forceOneReader(s *scene) {
	a, b := s.open(), s.open()
	key := s.key()
	one, two, three := s.take(a, long, driver.Shared(key)), s.take(b, long, driver.Shared(key)), s.take(a, long, driver.Shared(key))
	writer := s.queue(b, long, driver.Exclusive(key))
	if had := s.force(b, key, someReason, two.expected()); len(had) != 1 || had[0].Owner != two.Owner {
		s.Errorf("the reader was said to be %+v", had)
	}
	s.isForced(s.renew(b, two.Grant), someReason)
	s.mustRenew(one)
	writer.waits()
	if had := s.force(b, key, someReason, two.expected(), one.expected(), three.expected()); len(had) != 2 {
		s.Errorf("the readers were said to be %+v", had)
	}
	s.isForced(a.Release(s.ctx, one.Grant), someReason)
	s.isForced(a.Release(s.ctx, three.Grant), someReason)
	next := writer.granted(s.Late)
	s.rising([]uint64{three.Token, next.Token})
	s.mustRelease(next)
}

func forceOnePermit(s *scene) {
	a, b := s.open(), s.open()
	key := s.key()
	one, two := s.take(a, long, driver.Permit(key, 2)), s.take(b, long, driver.Permit(key, 2))
	w := s.queue(a, long, driver.Permit(key, 2))
	s.force(b, key, someReason, one.expected())
	next := w.granted(s.Late)
	s.isForced(s.renew(a, one.Grant), someReason)
	s.mustRenew(two)
	s.noRoom(b, key, driver.Permit(key, 2))
	s.mustRelease(two)
	s.mustRelease(next)
}
