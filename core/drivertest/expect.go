package drivertest

import (
	"context"
	"errors"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// mustRelease ends a lease that is in force.
func (s *scene) mustRelease(h hold) {
	s.Helper()
	s.release(h.st, h.Grant)
}

func (s *scene) release(st driver.Store, g driver.Grant) {
	s.Helper()
	if err := st.Release(s.ctx, g); err != nil {
		s.Fatalf("Release of a lease in force: %v", err)
	}
}

// mustRenew renews a lease that is in force.
func (s *scene) mustRenew(h hold) {
	s.Helper()
	if err := s.renew(h.st, h.Grant); err != nil {
		s.Fatalf("Renew of a lease in force: %v", err)
	}
}

func (s *scene) renew(st driver.Store, g driver.Grant) error {
	s.Helper()
	errs := st.Renew(s.ctx, []driver.Grant{g})
	if len(errs) != 1 {
		s.Fatalf("Renew of one grant returned %d errors", len(errs))
	}
	return errs[0]
}

// renewWithin renews with the timeout that the engine sets: a third of the TTL, here of the
// short one.
func (s *scene) renewWithin(st driver.Store, g driver.Grant) []error {
	ctx, cancel := context.WithTimeout(s.ctx, s.TTL/3)
	defer cancel()
	return st.Renew(ctx, []driver.Grant{g})
}

// held checks that nobody gets key without waiting.
func (s *scene) held(st driver.Store, key string) {
	s.Helper()
	s.noRoom(st, key, s.claim(key))
}

// noRoom checks that nobody gets claims without waiting, because of key.
func (s *scene) noRoom(st driver.Store, key string, claims ...driver.Claim) *driver.HeldError {
	s.Helper()
	_, err := s.acquire(s.ctx, st, s.ask(s.TTL, claims...))
	return s.isHeld(err, key)
}

// isInTheWay checks that claims are refused because of h, and what callers are told: who holds the key, and when
// to come again.
func (s *scene) isInTheWay(h hold, st driver.Store, claims ...driver.Claim) {
	s.Helper()
	held := s.noRoom(st, h.Claims[0].Key, claims...)
	if held.Holder != "" && held.Holder != h.Owner {
		s.Errorf("the holder is said to be %q, is %q", held.Holder, h.Owner)
	}
	if held.RetryAfter < 0 || held.RetryAfter > long+s.Late {
		s.Errorf("RetryAfter is %v of a lease of %v", held.RetryAfter, long)
	}
}

func (s *scene) isHeld(err error, key string) *driver.HeldError {
	s.Helper()
	var held *driver.HeldError
	switch {
	case err == nil:
		s.Fatalf("%q was granted to a second owner", key)
	case !errors.As(err, &held) || !errors.Is(err, driver.ErrHeld):
		s.Fatalf("want a *driver.HeldError, got %T: %v", err, err)
	case errors.Is(err, driver.ErrUnavailable):
		s.Fatalf("contention looks like an outage: %v", err)
	case held.Key != key:
		s.Fatalf("the *driver.HeldError is about %q, want %q", held.Key, key)
	}
	return held
}

func (s *scene) isUnavailable(err error) {
	s.Helper()
	var held *driver.HeldError
	switch {
	case err == nil:
		s.Fatalf("success from a backend that does not answer")
	case errors.As(err, &held) || errors.Is(err, driver.ErrHeld):
		s.Fatalf("an outage looks like contention: %v", err)
	case !errors.Is(err, driver.ErrUnavailable):
		s.Fatalf("want an error that matches driver.ErrUnavailable, got %T: %v", err, err)
	}
}

func (s *scene) isLost(err error) {
	s.Helper()
	if !errors.Is(err, driver.ErrLeaseLost) {
		s.Fatalf("want an error that matches driver.ErrLeaseLost, got %v", err)
	}
}

// isLostOnRelease releases a lease that its owner no longer has, which must be told (R2). A store that
// was slow to answer may have been asked twice, and then can't tell it from its own work.
func (s *scene) isLostOnRelease(st driver.Store, g driver.Grant) {
	s.Helper()
	asked := time.Now()
	err := st.Release(s.ctx, g)
	if took := time.Since(asked); err == nil && took >= repeatsAfter {
		s.Logf("the release of a lost lease took %v and succeeded: it may have been sent twice", took)
		return
	}
	s.isLost(err)
}

func (s *scene) isClosed(err error) {
	s.Helper()
	if !errors.Is(err, driver.ErrClosed) {
		s.Fatalf("want an error that matches driver.ErrClosed, got %v", err)
	}
}
