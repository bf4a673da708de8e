package drivertest

import (
	"context"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// silence is one way to keep the backend's answers from a store.
type silence struct {
	how        string
	begin, end func(driver.Store)
}

// silences lists the ways that this harness has.
func (s *scene) silences() []silence {
	var all []silence
	if s.Pause != nil && s.Resume != nil {
		all = append(all, silence{
			"paused",
			func(driver.Store) { s.Pause(s.TB) },
			func(driver.Store) { s.Resume(s.TB) },
		})
	}
	if s.Cut != nil && s.Heal != nil {
		all = append(all, silence{
			"cut off",
			func(st driver.Store) { s.Cut(s.TB, st) },
			func(st driver.Store) { s.Heal(s.TB, st) },
		})
	}
	return all
}

// during calls act while st gets no answer from the backend, and then waits until it gets
// answers again.
func (s *scene) during(q silence, st driver.Store, act func()) {
	s.Helper()
	s.Logf("the backend is %s", q.how)
	func() {
		q.begin(st)
		defer q.end(st) // even if act ends the test
		act()
	}()
	s.answers(st)
}

// answers waits until st reaches the backend again.
func (s *scene) answers(st driver.Store) {
	s.Helper()
	for {
		ctx, cancel := context.WithTimeout(s.ctx, s.Late)
		g, err := s.acquire(ctx, st, s.request(s.key(), s.TTL))
		cancel()
		if err == nil {
			_ = st.Release(s.ctx, g)
			return
		}
		if s.ctx.Err() != nil {
			s.Fatalf("the store does not recover: %v", err)
		}
		time.Sleep(settle)
	}
}
