package core

// Done returns a channel that is closed when the lease has ended: when it is lost,
// or its release begins. Unlike [Lease.Context] it does not end with the caller's
// context, which leaves the key held, and does end with a loss that
// [WithoutCancelOnLoss] keeps from the context. [Lease.Err] then tells which it is.
// A nested lease ends with the outer one, too.
func (l *Lease) Done() <-chan struct{} {
	over := l.Err() != nil
	w := l.engine.watchdog
	w.mu.Lock()
	defer w.mu.Unlock()
	if d := &l.deadline; d.done == nil {
		d.done = make(chan struct{})
		if over || !w.follow(l) {
			d.signal()
		}
	}
	return l.deadline.done
}

// follow has l's channel closed with what l is nested in; false: one of them has
// ended by now, or l itself. Needs the watchdog's mutex.
func (w *watchdog) follow(l *Lease) bool {
	if l.nest == nil {
		return l.deadline.ended == nil
	}
	if l.nest.ended.Load() != nil {
		return false
	}
	for _, p := range l.nest.on {
		if p.deadline.ended != nil {
			return false
		}
	}
	for _, p := range l.nest.on {
		if p.deadline.nested == nil {
			p.deadline.nested = make(map[*Lease]struct{})
		}
		p.deadline.nested[l] = struct{}{}
	}
	return true
}

// unfollow is for a nested lease that is released.
func (w *watchdog) unfollow(l *Lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l.deadline.signal()
	for _, p := range l.nest.on {
		delete(p.deadline.nested, l)
	}
}

// signal closes the lease's channel, and those of the leases nested in it.
func (d *deadline) signal() {
	if d.done != nil {
		select {
		case <-d.done:
		default:
			close(d.done)
		}
	}
	for l := range d.nested {
		l.deadline.signal()
	}
	d.nested = nil
}
