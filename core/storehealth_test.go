package core_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/locktest"
	"github.com/keyturn/keyturn/store/memstore"
)

func TestPing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kit := locktest.New(t)
		eng := kit.Engine
		wants := func(what string, ctx context.Context, want error, took time.Duration) {
			t.Helper()
			began := time.Now()
			err := eng.Ping(ctx)
			if !errors.Is(err, want) || (err == nil) != (want == nil) || time.Since(began) != took {
				t.Errorf("%s: %v after %v, want %v after %v", what, err, time.Since(began), want, took)
			}
		}
		wants("the store answers", bg, nil, 0)
		lease := mustAcquire(t, eng, "keyturn.ping") // which is free again
		wants("while another one has the key", bg, nil, 0)
		mustRelease(t, lease)

		kit.Store.Refuse()
		wants("the store is down", bg, core.ErrUnavailable, 0)
		kit.Store.Heal()
		kit.Store.Hang()
		wants("the store is silent", bg, core.ErrUnavailable, 2*time.Second)
		soon, cancel := context.WithTimeout(bg, time.Second)
		defer cancel()
		wants("the store is silent for a caller in a hurry", soon, core.ErrUnavailable, time.Second)
		left, leave := context.WithCancel(bg)
		time.AfterFunc(time.Second, leave)
		wants("the caller left", left, context.Canceled, time.Second)
		kit.Store.Heal()
		wants("the store is back", bg, nil, 0)
		shut(t, eng)
		wants("after Close", bg, core.ErrClosed, 0)
	})
}

// ailing is a store that says when it is impaired.
type ailing struct {
	*memstore.Store
	tell func(error)
}

func (a *ailing) Describe() driver.Description {
	d := a.Store.Describe()
	d.OnImpaired = func(f func(error)) { a.tell = f }
	return d
}
