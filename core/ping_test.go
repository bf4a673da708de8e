package core_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/locktest"
)

func TestPing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kit := locktest.New(t)
		eng, ctx := kit.Engine, context.Background()
		if err := eng.Ping(ctx); err != nil {
			t.Error(err)
		}
		lease, err := eng.Acquire(ctx, "keyturn.ping") // which is free again
		if err != nil {
			t.Fatal(err)
		}
		if err := eng.Ping(ctx); err != nil {
			t.Errorf("while another one has the key: %v", err)
		}
		if err := lease.Release(ctx); err != nil {
			t.Error(err)
		}

		kit.Store.Refuse()
		if err := eng.Ping(ctx); !errors.Is(err, core.ErrUnavailable) {
			t.Errorf("the store is down: %v", err)
		}
		kit.Store.Heal()
		kit.Store.Hang()
		began := time.Now()
		if err := eng.Ping(ctx); !errors.Is(err, core.ErrUnavailable) || time.Since(began) != 2*time.Second {
			t.Errorf("the store is silent: %v after %v", err, time.Since(began))
		}
		soon, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		began = time.Now()
		if err := eng.Ping(soon); err == nil || time.Since(began) != time.Second {
			t.Errorf("the store is silent: %v after %v", err, time.Since(began))
		}
		left, leave := context.WithCancel(ctx)
		time.AfterFunc(time.Second, leave)
		if err := eng.Ping(left); !errors.Is(err, context.Canceled) || errors.Is(err, core.ErrUnavailable) {
			t.Errorf("the caller left: %v", err)
		}
		kit.Store.Heal()
		if err := eng.Ping(ctx); err != nil {
			t.Errorf("the store is back: %v", err)
		}
		if err := eng.Close(ctx); err != nil {
			t.Error(err)
		}
		if err := eng.Ping(ctx); !errors.Is(err, core.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}
