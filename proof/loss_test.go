package main_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/proof/history"
	"github.com/keyturn/keyturn/proof/work"
	"github.com/keyturn/keyturn/store/memstore"
)

// TestHoldersThatWereToldOfALossCountNoMore: a store forgets all permits, again and again. Holders
// learn of it at their next renewal, a third of the TTL later, but may sleep for longer before they
// look at their lease. A history behind Sentinel was once called wrong for that: it counted a
// lease until the holder looked, and the permit had others by then.
func TestHoldersThatWereToldOfALossCountNoMore(t *testing.T) {
	servertest.Long(t)
	forget := func(ctx context.Context, mem *memstore.Store) (losses []history.Loss) {
		for tick := time.NewTicker(2 * work.TTL); ; {
			select {
			case <-ctx.Done():
				return losses
			case <-tick.C:
			}
			info, err := mem.Inspect(ctx, "gate")
			if err != nil {
				t.Error(err)
			}
			at := bubbleNow()
			for _, h := range info.Holders {
				_ = mem.Release(ctx, driver.Grant{Owner: h.Owner, Token: h.Token, Claims: []driver.Claim{driver.Permit("gate", 2)}, TTL: work.TTL})
			}
			losses = append(losses, history.Loss{
				From: at, Over: at + 1, To: at + int64(work.TTL/3+10*time.Millisecond),
				Hits: func(key string) bool { return key == "gate" },
			})
		}
	}
	whole := func(s slow) driver.Store { return s }
	says(t, inABubble(t, 20*time.Second, whole, forget), nil)
	// Nobody can know at once, so the losses are real.
	atOnce := func(ctx context.Context, mem *memstore.Store) []history.Loss {
		losses := forget(ctx, mem)
		for i := range losses {
			losses[i].To = losses[i].Over
		}
		return slices.Clip(losses)
	}
	says(t, inABubble(t, 20*time.Second, whole, atOnce), []string{"by 3 together"})
}
