package core

import "sync"

// span is how long a lease lasts, apart from the request that it was acquired
// in: the lease's context ends with that one, too. It costs nothing until
// somebody asks to be told.
type span struct {
	mu    sync.Mutex
	over  bool
	cause error
	tell  map[*func(error)]struct{}
}

// stop notes the lease's end, and has told everybody when it returns: the next
// one is let in after that. The first end counts.
func (s *span) stop(cause error) {
	s.mu.Lock()
	tell := s.tell
	if !s.over {
		s.over, s.cause = true, cause
	}
	s.tell = nil
	s.mu.Unlock()
	for f := range tell {
		(*f)(cause)
	}
}

// onEnd has f told the cause when the lease ends, at once if it has. The function
// returned calls that off.
func (s *span) onEnd(f func(cause error)) (forget func()) {
	s.mu.Lock()
	if s.over {
		s.mu.Unlock()
		f(s.cause) // never written again
		return func() {}
	}
	defer s.mu.Unlock()
	if s.tell == nil {
		s.tell = make(map[*func(error)]struct{})
	}
	s.tell[&f] = struct{}{}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.tell, &f)
	}
}
