package sqlstore

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/keyturn/keyturn/internal/lifetime"
)

// checked is whether the store has checked its database. A program may start before the database, and
// under some settings two owners could hold a key, so the first request checks it if [New] could not.
type checked struct {
	s    *Store
	done atomic.Bool
	now  chan struct{} // has one element while somebody checks; it guards the fields below

	refusal error // of the last check; nil: there was no answer
	since   time.Time
}

// refusalLasts is for how long the next requests get the same refusal.
const refusalLasts = time.Second

// at checks, unless somebody has done so before.
func (c *checked) at(ctx context.Context) error {
	if c.done.Load() {
		return nil
	}
	select {
	case c.now <- struct{}{}:
		defer func() { <-c.now }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if c.done.Load() {
		return nil
	}
	if c.refusal != nil && time.Since(c.since) < refusalLasts {
		return c.refusal
	}
	err := c.s.check(ctx)
	c.refusal, c.since = nil, time.Now()
	switch {
	case err == nil:
		c.done.Store(true)
	case !lifetime.Silent(err):
		c.refusal = err
	}
	return err
}
