package sqlstore

import (
	"context"
	"sync/atomic"
	"time"
)

// looked is whether the store has looked at its database. A program may start before the database, and
// under some settings two owners could hold a key, so the first request looks if [New] could not.
type looked struct {
	s    *Store
	done atomic.Bool
	now  chan struct{} // has one element while somebody looks; it guards the fields below

	refusal error // of the last look; nil: there was no answer
	since   time.Time
}

// refusalLasts is for how long the next requests get the same refusal.
const refusalLasts = time.Second

// at looks, unless somebody has done so before.
func (l *looked) at(ctx context.Context) error {
	if l.done.Load() {
		return nil
	}
	select {
	case l.now <- struct{}{}:
		defer func() { <-l.now }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if l.done.Load() {
		return nil
	}
	if l.refusal != nil && time.Since(l.since) < refusalLasts {
		return l.refusal
	}
	err := l.s.look(ctx)
	l.refusal, l.since = nil, time.Now()
	switch {
	case err == nil:
		l.done.Store(true)
	case isAnswer(err):
		l.refusal = err
	}
	return err
}
