package lockasynq

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/hibiken/asynq"

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

// latest runs the handler if the key is free, and else waits for it, unless a
// newer task is there, or comes meanwhile.
//
// There is one place to wait per key, a lease of its own, which a task takes
// from the older one that has it. The older one learns of it by its next
// renewal, or when it gets the key and gives up its place: that is the step
// which settles whether it is still the latest.
func (w work) latest(ctx context.Context) error {
	refused, own := w.run(ctx, func(ctx context.Context) error {
		return w.handler.ProcessTask(ctx, w.task)
	}, core.WithFailFast())
	if !errors.Is(refused, core.ErrHeld) {
		return w.answer(ctx, refused, own)
	}
	slot, err := w.takeSlot(ctx)
	switch {
	case errors.Is(err, ErrSuperseded):
		return w.drop(ctx, err)
	case err != nil:
		return w.answer(ctx, err, nil)
	}
	defer func() { _ = slot.Release(ctx) }() // it is bounded, and runs out soon
	return w.waitInSlot(ctx, slot)
}

func (w work) waitInSlot(ctx context.Context, slot *core.Lease) error {
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
	if !ran && errors.Is(slot.Err(), core.ErrLeaseLost) {
		return w.drop(ctx, ErrSuperseded)
	}
	return w.answer(ctx, refused, own)
}

// takeSlot takes the place of a task that waits. Who comes again after a failure
// is older than whoever waits, and takes no place but a free one.
func (w work) takeSlot(ctx context.Context) (*core.Lease, error) {
	key := slotKey(w.claims[0].Key)
	take := func() (*core.Lease, error) {
		slot, err := w.Engine().TryAcquire(ctx, key, core.WithTTL(slotTTL), core.WithMaxHold(0), core.WithRule(w.Name))
		if errors.Is(err, core.ErrHeld) {
			return nil, fmt.Errorf("%w: %w", ErrSuperseded, err)
		}
		return slot, err
	}
	slot, err := take()
	if retried, _ := asynq.GetRetryCount(ctx); !errors.Is(err, ErrSuperseded) || retried > 0 {
		return slot, err
	}
	if _, err := w.Engine().ForceRelease(ctx, key, "lockasynq: superseded by a newer task"); err != nil {
		return nil, err
	}
	return take() // taken again: by one that came later still
}

// drop is the end of a task that was superseded.
func (w work) drop(ctx context.Context, why error) error {
	w.skip(ctx, why)
	return nil
}
