package core

import (
	"context"
	"reflect"
	"runtime/debug"
	"time"

	"github.com/keyturn/keyturn/core/observe"
)

// WithHooks makes the engine call h. It may be given several times. Then the engine calls the
// hooks in that order, but AcquireEnd, HoldEnd and OnceEnd in the reverse order. Each start hook
// gets the context that the one before returned, so their contexts nest. All end hooks get the
// last one. The zero Hooks cost nothing.
func WithHooks(h observe.Hooks) EngineOption {
	return engineOption(func(c *engineConfig) error {
		if !reflect.ValueOf(h).IsZero() { // hooks without any function cost nothing
			c.hooks = append(c.hooks, h)
		}
		return nil
	})
}

// hooks are the hooks of an engine; nil: none. Its methods call them one after the other. A
// shield surrounds each call. So code that calls hooks needs no defer for a panic that is not
// its own.
type hooks struct {
	each []observe.Hooks
	log  *logger
}

// newHooks returns nil if there are no hooks.
func newHooks(each []observe.Hooks, log *logger) *hooks {
	if len(each) == 0 {
		return nil
	}
	return &hooks{each: each, log: log}
}

// shield is deferred around the call of each hook.
func (h *hooks) shield(hook string) {
	if p := recover(); p != nil {
		h.log.panicked(hook, p, debug.Stack())
	}
}

// tell calls a hook.
func (h *hooks) tell(hook string, call func()) {
	defer h.shield(hook)
	call()
}

// enter calls a hook that may put something into ctx.
func (h *hooks) enter(ctx context.Context, hook string, call func(context.Context) context.Context) (in context.Context) {
	defer func() {
		if in == nil {
			in = ctx
		}
	}()
	defer h.shield(hook)
	return call(ctx)
}

func (h *hooks) acquireStart(ctx context.Context, a observe.Acquisition) context.Context {
	for i := range h.each {
		if hook := h.each[i].AcquireStart; hook != nil {
			ctx = h.enter(ctx, "AcquireStart", func(ctx context.Context) context.Context { return hook(ctx, a) })
		}
	}
	return ctx
}

// trace returns the first trace that every store keeps as it is; "" if there is none. A store that refuses
// a note refuses the whole request.
func (h *hooks) trace(ctx context.Context) (trace string) {
	if h == nil {
		return ""
	}
	for i := range h.each {
		if hook := h.each[i].Trace; hook != nil {
			h.tell("Trace", func() { trace = hook(ctx) })
		}
		if trace != "" && isNote(trace) {
			return trace
		}
	}
	return ""
}

func (h *hooks) blocked(ctx context.Context, a observe.Acquisition, held HeldError, position int) {
	for i := range h.each {
		if hook := h.each[i].Blocked; hook != nil {
			h.tell("Blocked", func() { hook(ctx, a, held, position) })
		}
	}
}

func (h *hooks) acquireEnd(ctx context.Context, a observe.Acquisition, lease *Lease, err error) {
	for i := len(h.each) - 1; i >= 0; i-- {
		if hook := h.each[i].AcquireEnd; hook != nil {
			h.tell("AcquireEnd", func() { hook(ctx, a, seen(lease), err) })
		}
	}
}

func (h *hooks) holdStart(ctx context.Context, lease *Lease) context.Context {
	for i := range h.each {
		if hook := h.each[i].HoldStart; hook != nil {
			ctx = h.enter(ctx, "HoldStart", func(ctx context.Context) context.Context { return hook(ctx, seen(lease)) })
		}
	}
	return ctx
}

func (h *hooks) renewed(lease *Lease, late time.Duration, err error) {
	for i := range h.each {
		if hook := h.each[i].Renewed; hook != nil {
			h.tell("Renewed", func() { hook(seen(lease), late, err) })
		}
	}
}

func (h *hooks) extended(lease *Lease, err error) {
	for i := range h.each {
		if hook := h.each[i].Extended; hook != nil {
			h.tell("Extended", func() { hook(seen(lease), err) })
		}
	}
}

func (h *hooks) holdEnd(ctx context.Context, lease *Lease, err error) {
	for i := len(h.each) - 1; i >= 0; i-- {
		if hook := h.each[i].HoldEnd; hook != nil {
			h.tell("HoldEnd", func() { hook(ctx, seen(lease), err) })
		}
	}
}

func (h *hooks) owed(ctx context.Context, d observe.Debt) {
	for i := range h.each {
		if hook := h.each[i].Owed; hook != nil {
			h.tell("Owed", func() { hook(ctx, d) })
		}
	}
}

func (h *hooks) lingered(l observe.Linger) {
	for i := range h.each {
		if hook := h.each[i].Lingered; hook != nil {
			h.tell("Lingered", func() { hook(l) })
		}
	}
}

func (h *hooks) onceStart(ctx context.Context, x observe.Execution) context.Context {
	for i := range h.each {
		if hook := h.each[i].OnceStart; hook != nil {
			ctx = h.enter(ctx, "OnceStart", func(ctx context.Context) context.Context { return hook(ctx, x) })
		}
	}
	return ctx
}

func (h *hooks) onceEnd(ctx context.Context, x observe.Execution, out Outcome, err error) {
	told := observe.Outcome{Duplicate: out.Duplicate, ResultNotKept: out.ResultNotKept, Trace: out.trace}
	for i := len(h.each) - 1; i >= 0; i-- {
		if hook := h.each[i].OnceEnd; hook != nil {
			h.tell("OnceEnd", func() { hook(ctx, x, told, err) })
		}
	}
}

func (h *hooks) unlocked(ctx context.Context, a observe.Acquisition, err error) {
	for i := range h.each {
		if hook := h.each[i].Unlocked; hook != nil {
			h.tell("Unlocked", func() { hook(ctx, a, err) })
		}
	}
}

func (h *hooks) forced(ctx context.Context, r observe.Removal) {
	for i := range h.each {
		if hook := h.each[i].Forced; hook != nil {
			h.tell("Forced", func() { hook(ctx, r) })
		}
	}
}

func (h *hooks) declared(d observe.Declaration) {
	for i := range h.each {
		if hook := h.each[i].Declared; hook != nil {
			h.tell("Declared", func() { hook(d) })
		}
	}
}

func (h *hooks) skipped(ctx context.Context, s observe.Skip) {
	for i := range h.each {
		if hook := h.each[i].Skipped; hook != nil {
			h.tell("Skipped", func() { hook(ctx, s) })
		}
	}
}

func (h *hooks) storeCalled(store, op string, took time.Duration, err error) {
	for i := range h.each {
		if hook := h.each[i].StoreCalled; hook != nil {
			h.tell("StoreCalled", func() { hook(store, op, took, err) })
		}
	}
}

func (h *hooks) storeImpaired(store string, err error) {
	for i := range h.each {
		if hook := h.each[i].StoreImpaired; hook != nil {
			h.tell("StoreImpaired", func() { hook(store, err) })
		}
	}
}
