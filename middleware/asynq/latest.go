package lockasynq

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
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

// supersedes begins the reason that goes to who loses its place to another task;
// then come when that one came and which owner of the place it has seen.
const supersedes = core.Routine + "lockasynq: superseded by a newer task, "

// rival is a task as it makes itself known to the one whose place it takes.
type rival struct {
	came time.Time
	seen string // who had the place when it first looked; "": nobody
}

func (r rival) String() string {
	return supersedes + r.came.Format(time.RFC3339Nano) + " " + r.seen
}

// parseRival says who took the place, if it was another task.
func parseRival(lost *core.LeaseLostError) (r rival, ok bool) {
	said, _ := strings.CutPrefix(lost.Detail, supersedes)
	at, seen, ok := strings.Cut(said, " ")
	came, err := time.Parse(time.RFC3339Nano, at)
	return rival{came, seen}, ok && err == nil
}

// sameTime is within what time a task may overtake another on its way from the
// queue to the place, and more than by what clocks should differ.
const sameTime = 100 * time.Millisecond

// yieldsTo says whether by is the newer one, which took the place from r while it
// was owner's. Who saw r there came later, whatever its clock says, unless the two
// came at the same time.
func (r rival) yieldsTo(by rival, owner string) bool {
	return by.came.After(r.came) || by.seen == owner && r.came.Sub(by.came) > sameTime
}

// latest runs the handler if the key is free, and else waits for it, unless a
// newer task is there, or comes meanwhile.
//
// There is one place to wait per key, a lease of its own, which a task takes
// from the older one that has it. The older one learns of it by its next
// renewal, or when it gets the key and gives up its place: that is the step
// which settles whether it is still the latest.
//
// Of tasks that come at the same time an older one may be slower to take the place,
// and take it from a newer one, which then takes it back. A place can be lost in
// other ways, as any lease. That says nothing of a newer task: the older one takes
// the place again, if it is free.
func (w work) latest(ctx context.Context) error {
	refused, own := w.run(ctx, func(ctx context.Context) error {
		return w.handler.ProcessTask(ctx, w.task)
	}, core.WithFailFast())
	if !errors.Is(refused, core.ErrHeld) {
		return w.answer(ctx, refused, own)
	}
	self := rival{came: w.came}
	for {
		slot, err := w.takeSlot(ctx, &self)
		switch {
		case errors.Is(err, ErrSuperseded):
			return w.drop(ctx, err)
		case err != nil:
			return w.answer(ctx, err, nil)
		}
		lost, err := w.waitInSlot(ctx, slot)
		if lost == nil {
			return err
		}
		by, taken := parseRival(lost)
		if taken && (w.older || self.yieldsTo(by, slot.Owner())) {
			return w.drop(ctx, ErrSuperseded)
		}
		w.older = w.older || !taken
	}
}

// waitInSlot waits for the key while slot is this task's, and runs the handler.
// If that did not come to an end, slot was lost.
func (w work) waitInSlot(ctx context.Context, slot *core.Lease) (lost *core.LeaseLostError, err error) {
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
	if ran || ctx.Err() != nil || !errors.As(slot.Err(), &lost) {
		return nil, w.answer(ctx, refused, own)
	}
	return lost, nil
}

// takeSlot takes the place of a task that waits. Who comes again is older than
// whoever waits, and takes no place but a free one.
func (w work) takeSlot(ctx context.Context, self *rival) (*core.Lease, error) {
	key := slotKey(w.keys.First)
	for {
		// A rule of its own: how long a task waits is not how long the key is held.
		slot, err := w.Engine().TryAcquire(ctx, key, core.WithTTL(slotTTL), core.WithMaxHold(0), core.WithRule(w.Name+" (waiting)"))
		held := (*core.HeldError)(nil)
		switch {
		case !errors.As(err, &held):
			return slot, err
		case w.older:
			return nil, fmt.Errorf("%w: %w", ErrSuperseded, err)
		case self.seen == "":
			self.seen = held.Holder
		}
		// This ends: a task that was put out comes back only from an older one.
		if _, err := w.Engine().ForceRelease(ctx, key, self.String()); err != nil {
			return nil, err
		}
	}
}

// drop is the end of a task that was superseded.
func (w work) drop(ctx context.Context, why error) error {
	w.skip(ctx, why)
	return nil
}
