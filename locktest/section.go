package locktest

import (
	"sync"
	"testing"
)

// Section is code that must not run twice at a time for one key. A test enters it in place of
// the real work:
//
//	defer section.Enter(user)()
//	time.Sleep(time.Millisecond) // so that somebody else could come in
//
// It is safe for concurrent use.
type Section struct {
	t testing.TB

	mu      sync.Mutex
	inside  map[string]int
	entered map[string]int
}

// NewSection makes a section that reports to t.
func NewSection(t testing.TB) *Section {
	return &Section{t: t, inside: make(map[string]int), entered: make(map[string]int)}
}

// Enter fails the test if somebody is inside for key already. The caller is inside until it
// calls leave.
func (s *Section) Enter(key string) (leave func()) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inside[key]++
	s.entered[key]++
	if n := s.inside[key]; n > 1 {
		s.t.Errorf("locktest: %d at a time in the section for %q", n, key)
	}
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.inside[key]--
	})
}

// Entered returns how often Enter was called for key. Check it: a section that nobody enters
// proves nothing.
func (s *Section) Entered(key string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.entered[key]
}
