package core

import "sync"

// Done returns a channel that is closed when the lease has ended: when it is lost, or when its
// release begins. [Lease.Err] then returns the reason. A nested lease ends with the outer one, too, and with
// [WithMoveFrom] a lease ends with the old store's.
//
// It differs from [Lease.Context] in two ways. It does not end with the caller's context, which
// leaves the key held. And it ends with a loss that [WithoutCancelOnLoss] keeps from the context.
func (l *Lease) Done() <-chan struct{} {
	over := l.Err() != nil
	ch := l.finished.channel()
	if over || l.nest != nil && !l.nest.signals(l) {
		l.finished.signal()
	}
	return ch
}

// signals closes l's channel when one of the leases that l is nested in ends. It reports false
// if one of them has ended by now.
func (n *nest) signals(l *Lease) bool {
	for _, p := range n.outer {
		if !p.finished.follow(l) {
			return false
		}
	}
	return n.ended.Load() == nil
}

// followOld closes l's channel when the old store's lease ends.
func (l *Lease) followOld(old *Lease) {
	old.Done() // so that it follows those that it is nested in
	if !old.finished.follow(l) {
		l.finished.signal()
	}
}

// doneSignal is the channel of [Lease.Done]. It is made when somebody asks for it, because nobody asks
// most leases.
type doneSignal struct {
	mu     sync.Mutex
	ch     chan struct{} // nil: nobody has asked
	over   bool
	nested map[*Lease]struct{} // leases whose channels are closed together with this one
}

func (s *doneSignal) channel() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch == nil {
		s.ch = make(chan struct{})
		if s.over {
			close(s.ch)
		}
	}
	return s.ch
}

// follow makes the end close nested's channel, too. It reports false if the lease has ended.
func (s *doneSignal) follow(nested *Lease) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return false
	}
	if s.nested == nil {
		s.nested = make(map[*Lease]struct{})
	}
	s.nested[nested] = struct{}{}
	return true
}

// unfollow forgets a nested lease that was released.
func (s *doneSignal) unfollow(nested *Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.nested, nested)
}

// signal closes the channel, and those of the leases nested in this one.
func (s *doneSignal) signal() {
	s.mu.Lock()
	nested := s.nested
	s.nested = nil
	if s.ch != nil && !s.over {
		close(s.ch)
	}
	s.over = true
	s.mu.Unlock()
	for l := range nested { // without the mutex, because they lock their outer leases' mutexes
		l.finished.signal()
	}
}
