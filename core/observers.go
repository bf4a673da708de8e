package core

import (
	"context"
	"time"
)

// observers are told one after the other; of what frames something the ends
// come in reverse order, so that their contexts nest. The context that each
// starts from is the one that the one before it returned, and all see the last.
type observers []Observer

// join makes one observer of several: nil of none.
func (os observers) join() Observer {
	switch len(os) {
	case 0:
		return nil
	case 1:
		return os[0]
	}
	return os
}

func (os observers) AcquireStart(ctx context.Context, a Acquisition) context.Context {
	for _, o := range os {
		ctx = o.AcquireStart(ctx, a)
	}
	return ctx
}

func (os observers) AcquireEnd(ctx context.Context, a Acquisition, lease *Lease, err error) {
	for i := range os {
		os[len(os)-1-i].AcquireEnd(ctx, a, lease, err)
	}
}

func (os observers) HoldStart(ctx context.Context, lease *Lease) context.Context {
	for _, o := range os {
		ctx = o.HoldStart(ctx, lease)
	}
	return ctx
}

func (os observers) Renewed(lease *Lease, late time.Duration, err error) {
	for _, o := range os {
		o.Renewed(lease, late, err)
	}
}

func (os observers) HoldEnd(ctx context.Context, lease *Lease, err error) {
	for i := range os {
		os[len(os)-1-i].HoldEnd(ctx, lease, err)
	}
}

func (os observers) Owed(ctx context.Context, d Debt) {
	for _, o := range os {
		o.Owed(ctx, d)
	}
}

func (os observers) OnceStart(ctx context.Context, x Execution) context.Context {
	for _, o := range os {
		ctx = o.OnceStart(ctx, x)
	}
	return ctx
}

func (os observers) OnceEnd(ctx context.Context, x Execution, out Outcome, err error) {
	for i := range os {
		os[len(os)-1-i].OnceEnd(ctx, x, out, err)
	}
}

func (os observers) Unlocked(ctx context.Context, a Acquisition, err error) {
	for _, o := range os {
		o.Unlocked(ctx, a, err)
	}
}

func (os observers) Blocked(ctx context.Context, a Acquisition, held HeldError, position int) {
	for _, o := range os {
		o.Blocked(ctx, a, held, position)
	}
}

func (os observers) Extended(lease *Lease, err error) {
	for _, o := range os {
		o.Extended(lease, err)
	}
}

func (os observers) Forced(ctx context.Context, r Removal) {
	for _, o := range os {
		o.Forced(ctx, r)
	}
}

func (os observers) Declared(d Declaration) {
	for _, o := range os {
		o.Declared(d)
	}
}

func (os observers) Skipped(ctx context.Context, s Skip) {
	for _, o := range os {
		o.Skipped(ctx, s)
	}
}

func (os observers) StoreImpaired(store string, err error) {
	for _, o := range os {
		o.StoreImpaired(store, err)
	}
}

func (os observers) StoreCalled(store, op string, took time.Duration, err error) {
	for _, o := range os {
		o.StoreCalled(store, op, took, err)
	}
}

// Trace is the first one's that knows.
func (os observers) Trace(ctx context.Context) string {
	for _, o := range os {
		if t, ok := o.(Tracer); ok {
			if trace := t.Trace(ctx); trace != "" {
				return trace
			}
		}
	}
	return ""
}
