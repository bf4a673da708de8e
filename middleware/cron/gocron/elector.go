package lockgocron

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/keyturn/keyturn/core"
)

// ErrNotLeader is the error of [Elector.IsLeader] in a process that does not lead.
var ErrNotLeader = errors.New("lockgocron: another process leads, or none")

// Elector is a gocron.Elector: all jobs run in the process that leads. It is safe for concurrent
// use. Make one with [NewElector] and have it campaign with [Elector.Run].
type Elector struct {
	eng   *core.Engine
	key   string
	opts  []core.CallOption
	lease atomic.Pointer[core.Lease] // nil: this process does not lead
}

// NewElector makes an Elector. The process that holds key leads. opts are those of core.Engine.Lead.
// It does no I/O. A nil engine and an option out of range are errors that match
// core.ErrInvalidOption; a key that can't name a lock matches core.ErrInvalidKey.
func NewElector(eng *core.Engine, key string, opts ...core.CallOption) (*Elector, error) {
	_, err := core.NewPolicy(opts...)
	err = errors.Join(err, core.Exclusive(key).Validate())
	if eng == nil {
		err = errors.Join(err, &core.OptionError{Option: "lockgocron.NewElector", Value: nil, Want: "an engine"})
	}
	if err != nil {
		return nil, fmt.Errorf("lockgocron: %w", err)
	}
	return &Elector{eng: eng, key: key, opts: opts}, nil
}

// Run campaigns until ctx ends, and again whenever this process does not lead any more. Its errors
// are those of core.Engine.Lead; after the end of ctx it matches ctx's error. A second Run at the
// same time campaigns beside the first, which gains nothing.
func (e *Elector) Run(ctx context.Context) error {
	return e.eng.Lead(ctx, e.key, func(ctx context.Context) error {
		l, _ := core.LeaseFrom(ctx)
		e.lease.Store(l)
		defer e.lease.CompareAndSwap(l, nil) // another Run may lead by now
		<-ctx.Done()
		return ctx.Err()
	}, e.opts...)
}

// IsLeader implements gocron.Elector. It is nil while this process leads, otherwise [ErrNotLeader].
// It asks nobody, and it is right also just after a pause of the process.
func (e *Elector) IsLeader(context.Context) error {
	if l := e.lease.Load(); l == nil || l.Err() != nil {
		return ErrNotLeader
	}
	return nil
}
