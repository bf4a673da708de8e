package core

import (
	"sync"
	"sync/atomic"
)

// Done returns a channel that is closed when the lease has ended: when it is lost, or when its
// release begins. [Lease.Err] then returns the reason. A nested lease ends with the outer one, too.
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

// doneSignal is the channel of [Lease.Done], made when somebody asks for it.
type doneSignal struct {
	ch atomic.Pointer[chan struct{}] // nil: nobody asked, and the lease has not ended

	mu     sync.Mutex          // orders the end and follow, if there is a channel
	nested map[*Lease]struct{} // leases whose channels are closed together with this one
}

func (s *doneSignal) channel() <-chan struct{} {
	if s.ch.Load() == nil {
		ch := make(chan struct{})
		s.ch.CompareAndSwap(nil, &ch)
	}
	return *s.ch.Load()
}

// overBefore is the channel of all leases that had ended before anybody asked.
var overBefore = func() chan struct{} {
	ch := make(chan struct{})
	close(ch)
	return ch
}()

// over reports whether the lease has ended, after somebody asked. Needs mu.
func (s *doneSignal) over() bool {
	select {
	case <-s.channel():
		return true
	default:
		return false
	}
}

// follow makes the end close nested's channel, too. It reports false if the lease has ended.
func (s *doneSignal) follow(nested *Lease) bool {
	s.channel() // so that an end from now on takes the mutex
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over() {
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

// signal closes the channel, and those of the leases nested in this one. Of most leases nobody asked
// for the channel.
func (s *doneSignal) signal() {
	if s.ch.CompareAndSwap(nil, &overBefore) || s.ch.Load() == &overBefore {
		return
	}
	s.mu.Lock()
	nested := s.nested
	s.nested = nil
	if !s.over() {
		close(*s.ch.Load())
	}
	s.mu.Unlock()
	for l := range nested { // without the mutex, because they lock their outer leases' mutexes
		l.finished.signal()
	}
}
