package drivertest

import "context"

var closeChecks = []check{
	{name: "C1 Close ends waits with ErrClosed", run: closeEndsWaits},
	{name: "C2 Close releases no lease", run: closeReleasesNothing},
}

// closeEndsWaits: Close ends the waits of its own store, and of no other.
func closeEndsWaits(s *scene) {
	a, b, c := s.open(), s.open(), s.open()
	key := s.key()
	s.lock(a, key, long)
	ended := []*waiter{s.enqueue(b, key, long), s.enqueue(b, key, long)}
	stays := s.enqueue(c, key, long)
	if err := b.Close(); err != nil {
		s.Fatalf("Close: %v", err)
	}
	for _, w := range ended {
		s.isClosed(w.refused(s.Late))
	}
	stays.waits()
}

// closeReleasesNothing: the engine may close its store while a handler that it
// could not stop still runs.
func closeReleasesNothing(s *scene) {
	a, b := s.open(), s.open()
	key := s.key()
	s.lock(a, key, long)
	w := s.enqueue(b, key, long)
	if err := a.Close(); err != nil {
		s.Fatalf("Close: %v", err)
	}
	if w.await(s.TTL) {
		s.Fatalf("a waiter was answered: %+v, %v", w.grant, w.err)
	}
	s.held(b, key)
}

// closedAfterClose asks for a free key, so that nothing else can fail.
func closedAfterClose(s *scene) {
	st := s.open()
	key := s.key()
	s.mustRelease(s.lock(st, key, long))
	if err := st.Close(); err != nil {
		s.Fatalf("Close: %v", err)
	}
	for _, wait := range []bool{false, true} {
		req := s.request(key, long)
		req.Wait = wait
		ctx, cancel := context.WithTimeout(s.ctx, s.Late)
		_, err := s.acquire(ctx, st, req)
		cancel()
		s.isClosed(err)
	}
}
