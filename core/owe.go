package core

import (
	"container/list"
	"context"
	"errors"

	"github.com/keyturn/keyturn/core/internal/handoff"
)

// firstTries are debts that have not been sent yet. However many leases end at a time, at most
// [mostTries] releases are under way: a store that many processes share has other work, too.
type firstTries struct {
	// parts has them by the part of the store. When a part does not answer, nobody looks through what is
	// owed to the others.
	parts   map[string]*turns
	senders int // goroutines that send them
}

// turns are the first tries for a part of the store.
type turns struct {
	urgent list.List // of *debt; somebody may wait for the key
	idle   list.List // of *debt; leases that lingered until their time was over
}

func (t *turns) of(urgent bool) *list.List {
	if urgent {
		return &t.urgent
	}
	return &t.idle
}

// to returns where a first try for a part of the store waits.
func (f *firstTries) to(part string, urgent bool) *list.List {
	t := f.parts[part]
	if t == nil {
		t = new(turns)
		f.parts[part] = t
	}
	return t.of(urgent)
}

// owe enters a release that its caller does not wait for, and has it sent. It is a debt from the
// beginning, so the next caller that asks for the key waits for it, and so does Close. urgent: somebody
// may wait for the key.
func (ds *debts) owe(ctx context.Context, g handoff.Grant, rule string, urgent bool) {
	circuit := ds.engine.backend().circuit
	silent, part := circuit.IsOut(g.Claims[0].Key), circuit.Parts(g.Claims)
	ds.mu.Lock()
	first := &ds.queue
	if !silent {
		first = ds.first.to(part, urgent)
	}
	d := ds.addLocked(g, rule, first)
	switch {
	case d == nil, !d.kept:
	case silent:
		d.free()
		ds.startLocked()
	default:
		d.free()
		d.ctx = context.WithoutCancel(ctx)
		if ds.first.senders < mostTries {
			ds.first.senders++
			ds.engine.life.tidying.Go(ds.send)
		}
	}
	ds.mu.Unlock()
	if d != nil && !d.kept {
		ds.failed(ctx, d, errNoRoom)
	}
}

// errNoRoom: a release was not tried, because too many are owed.
var errNoRoom = errors.New("too many releases are owed")

// send sends first tries until none is left.
func (ds *debts) send() {
	for d := ds.next(); d != nil; d = ds.next() {
		if ds.try(d.ctx, d) != nil {
			ds.postpone(ds.engine.backend().circuit.Parts(d.grant.Claims))
		}
	}
}

// next returns the next first try, which the caller must make; nil: there is none, and the caller
// must end.
func (ds *debts) next() *debt {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	for _, urgent := range []bool{true, false} {
		for part, t := range ds.first.parts {
			for first := t.of(urgent); first.Len() > 0; {
				d := first.Front().Value.(*debt)
				ds.moveLocked(d)
				if d.busy == nil { // otherwise a caller that wants the key has sent it
					d.busy = make(chan struct{})
					return d
				}
			}
			if t.urgent.Len()+t.idle.Len() == 0 {
				delete(ds.first.parts, part)
			}
		}
	}
	ds.first.senders--
	return nil
}

// moveLocked puts a first try into the queue of those that are sent again.
func (ds *debts) moveLocked(d *debt) {
	d.in.Remove(d.at)
	d.in, d.at = &ds.queue, ds.queue.PushBack(d)
}

// postpone leaves the first tries for that part of the store to the goroutine that tries again,
// because it has not answered one.
func (ds *debts) postpone(part string) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	for _, urgent := range []bool{true, false} {
		for first := ds.first.to(part, urgent); first.Len() > 0; {
			ds.moveLocked(first.Front().Value.(*debt))
		}
	}
	ds.startLocked()
}
