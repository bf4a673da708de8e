package lockasynq

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/keyturn/keyturn/core"
)

// ErrSuperseded is why a task was dropped under [KeepLatest]: a newer one of the
// same key is there.
var ErrSuperseded = errors.New("lockasynq: a newer task waits for the key")

// slotTTL is how long the place of a waiting task outlives its process. A third
// of it is how long a task that was superseded may not know yet, and keep its
// worker.
const slotTTL = 3 * time.Second

// slotKey names the place for the one task that waits for key. No template
// renders a "%" that is not followed by two digits.
func slotKey(key string) string {
	const prefix = "%latest:"
	if len(prefix)+len(key) <= core.MaxKeyBytes {
		return prefix + key
	}
	sum := sha256.Sum256([]byte(key))
	return prefix + hex.EncodeToString(sum[:])
}

// supersedes is the reason that goes to who loses its place to a newer task.
const supersedes = "lockasynq: superseded by a newer task"

// latest runs the handler if the key is free, and else waits for it, unless a
// newer task is there, or comes meanwhile.
//
// There is one place to wait per key, a lease of its own, which a task takes
// from the older one that has it. The older one learns of it by its next
// renewal, or when it gets the key and gives up its place: that is the step
// which settles whether it is still the latest.
//
// A place can be lost in other ways, as any lease. That says nothing of a newer
// task: the older one takes the place again, if it is free.
func (w work) latest(ctx context.Context) error {
	refused, own := w.run(ctx, func(ctx context.Context) error {
		return w.handler.ProcessTask(ctx, w.task)
	}, core.WithFailFast())
	if !errors.Is(refused, core.ErrHeld) {
		return w.answer(ctx, refused, own)
	}
	for {
		slot, err := w.takeSlot(ctx)
		switch {
		case errors.Is(err, ErrSuperseded):
			return w.drop(ctx, err)
		case err != nil:
			return w.answer(ctx, err, nil)
		}
		err, again := w.waitInSlot(ctx, slot)
		if !again {
			return err
		}
		w.older = true
	}
}

// waitInSlot waits for the key while slot is this task's, and runs the handler.
// Again says that neither came to an end: slot was lost, and not to a newer task.
func (w work) waitInSlot(ctx context.Context, slot *core.Lease) (err error, again bool) {
	defer func() { _ = slot.Release(ctx) }() // it is bounded, and runs out soon
	// Not the slot's context, although the wait ends with it: the slot is given up
	// when the work begins.
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	waits := context.AfterFunc(slot.Context(), cancel)
	defer waits()
	ran := false
	refused, own := w.run(waiting, func(ctx context.Context) error {
		if !waits() || errors.Is(slot.Release(ctx), core.ErrLeaseLost) {
			return nil
		}
		ran = true
		return w.handler.ProcessTask(ctx, w.task)
	}, core.WithMaxWait(0))
	var lost *core.LeaseLostError
	switch {
	case ran || ctx.Err() != nil || !errors.As(slot.Err(), &lost):
		return w.answer(ctx, refused, own), false
	case lost.Reason == core.LossForced && lost.Detail == supersedes:
		return w.drop(ctx, ErrSuperseded), false
	}
	return nil, true
}

// takeSlot takes the place of a task that waits. Who comes again is older than
// whoever waits, and takes no place but a free one.
func (w work) takeSlot(ctx context.Context) (*core.Lease, error) {
	key := slotKey(w.claims[0].Key)
	take := func() (*core.Lease, error) {
		// A rule of its own: how long a task waits is not how long the key is held.
		slot, err := w.Engine().TryAcquire(ctx, key, core.WithTTL(slotTTL), core.WithMaxHold(0), core.WithRule(w.Name+" (waiting)"))
		if errors.Is(err, core.ErrHeld) {
			return nil, fmt.Errorf("%w: %w", ErrSuperseded, err)
		}
		return slot, err
	}
	slot, err := take()
	if w.older || !errors.Is(err, ErrSuperseded) {
		return slot, err
	}
	if _, err := w.Engine().ForceRelease(ctx, key, supersedes); err != nil {
		return nil, err
	}
	return take() // taken again: by one that came later still
}

// drop is the end of a task that was superseded.
func (w work) drop(ctx context.Context, why error) error {
	w.skip(ctx, why)
	return nil
}
