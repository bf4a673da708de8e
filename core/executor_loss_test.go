package core_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
)

// endure is an executor whose context ends before or after the function.
type endure struct {
	before  bool // the function does not run
	unknown bool // it may have committed
	end     func(context.Context)
}

func (endure) Validate() error { return nil }

func (x endure) Execute(ctx context.Context, key string, fn func(context.Context) (driver.Record, error)) (driver.Record, bool, error) {
	if !x.before {
		if _, err := fn(ctx); err != nil {
			return driver.Record{}, true, err
		}
	}
	x.end(ctx)
	<-ctx.Done()
	err := fmt.Errorf("mark %q: %w", key, ctx.Err())
	if x.unknown {
		err = errors.Join(core.ErrOutcomeUnknown, err)
	}
	return driver.Record{}, false, err
}

// An executor knows only that its context has ended. The caller learns why, and not more than
// what has happened: ErrLeaseLost says that the function ran.
func TestExecutorWhoseContextEnds(t *testing.T) {
	const lost, released, cancelled = "lost", "released", "cancelled"
	for _, c := range []struct {
		end             string
		before, unknown bool
		says            bool // the function is cut off, and returns that
		want            []error
	}{
		{lost, true, false, false, []error{core.ErrRolledBack}},
		{lost, false, false, false, []error{core.ErrLeaseLost}},
		{lost, false, true, false, []error{core.ErrOutcomeUnknown}},
		{lost, false, false, true, []error{core.ErrLeaseLost, context.Canceled}},
		{released, false, false, false, []error{core.ErrReleased}},
		{released, false, true, false, []error{core.ErrOutcomeUnknown}},
		{cancelled, true, false, false, []error{context.Canceled}},
		{cancelled, false, false, false, []error{context.Canceled}},
		{cancelled, false, true, false, []error{context.Canceled, core.ErrOutcomeUnknown}},
		{cancelled, false, false, true, []error{context.Canceled}},
	} {
		synctest.Test(t, func(t *testing.T) {
			spy := newSpy()
			eng := newEngine(t, spy)
			ctx, cancel := context.WithCancel(bg)
			defer cancel()
			end := func(ctx context.Context) {
				switch l, _ := core.LeaseFrom(ctx); c.end {
				case lost:
					breakLock(t, spy, l)
				case released:
					mustRelease(t, l)
				default:
					cancel()
				}
			}
			ran := false
			out, err := eng.Once(ctx, "k", func(ctx context.Context) ([]byte, error) {
				ran = true
				if c.says {
					end(ctx)
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return []byte("result"), nil
			}, core.WithExecutor(endure{c.before, c.unknown, end}))
			wantOnly(t, err, c.want...)
			if out.Result != nil || ran == c.before {
				t.Errorf("%+v: %+v, ran: %v", c, out, ran)
			}
			isFree(t, eng, "k")
			if t.Failed() {
				t.Logf("in %+v: %v", c, err)
			}
		})
	}
}
