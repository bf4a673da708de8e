package sdktest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/store/memstore"
)

// TestNoSpanIsLeftOpen, however a request ends; with a span left open a trace is
// never complete, and in some backends never seen.
func TestNoSpanIsLeftOpen(t *testing.T) {
	const key = "user:status:42"
	work := func(context.Context) error { return nil }
	panics := func(context.Context) error { panic("the handler") }
	for name, play := range map[string]func(t *testing.T, eng, other *core.Engine){
		"cancel while waiting": func(t *testing.T, eng, other *core.Engine) {
			lease, err := other.Acquire(context.Background(), key)
			want(t, err, nil)
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
			defer cancel()
			want(t, eng.Do(ctx, key, work), context.DeadlineExceeded)
			want(t, lease.Release(context.Background()), nil)
		},
		"loss": func(t *testing.T, eng, _ *core.Engine) {
			want(t, eng.Do(context.Background(), key, func(ctx context.Context) error {
				<-ctx.Done()
				return nil
			}, core.WithMaxHold(20*time.Millisecond)), core.ErrLeaseLost)
		},
		"panic": func(t *testing.T, eng, _ *core.Engine) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			_ = eng.Do(context.Background(), key, panics)
		},
		"panic in once": func(t *testing.T, eng, _ *core.Engine) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			_, _ = eng.Once(context.Background(), key, func(ctx context.Context) ([]byte, error) { return nil, panics(ctx) })
		},
		"close while waiting": func(t *testing.T, eng, other *core.Engine) {
			lease, err := other.Acquire(context.Background(), key)
			want(t, err, nil)
			time.AfterFunc(20*time.Millisecond, func() { want(t, eng.Close(context.Background()), nil) })
			want(t, eng.Do(context.Background(), key, work), core.ErrClosed)
			want(t, lease.Release(context.Background()), nil)
		},
		"close while holding": func(t *testing.T, eng, _ *core.Engine) {
			_, err := eng.Acquire(context.Background(), key)
			want(t, err, nil)
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
			defer cancel()
			want(t, eng.Close(ctx), context.DeadlineExceeded)
		},
	} {
		t.Run(name, func(t *testing.T) {
			o, store := watch(t), memstore.New()
			eng, err := core.New(store, core.WithHooks(o.obs))
			want(t, err, nil)
			other, err := core.New(store.Peer())
			want(t, err, nil)
			play(t, eng, other)
			_ = eng.Close(context.Background())
			want(t, other.Close(context.Background()), nil)
			await(t, "the spans to end", func() bool { return len(o.open()) == 0 })
			for id, n := range o.ended {
				if n != 1 {
					t.Errorf("span %s was ended %d times", id, n)
				}
			}
			if len(o.begun) == 0 {
				t.Error("no spans at all")
			}
		})
	}
}

func want(t *testing.T, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("error %v, want %v", err, target)
	}
}
