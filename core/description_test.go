package core_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/author"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/observe"
	"github.com/keyturn/keyturn/store/memstore"
)

// wrapper is around any store, and knows of Acquire alone.
type wrapper struct {
	driver.Store
	acquires atomic.Int64
}

func (c *wrapper) Acquire(ctx context.Context, req driver.Request) (driver.Grant, error) {
	c.acquires.Add(1)
	return c.Store.Acquire(ctx, req)
}

// TestWrappedStoreCanDoWhatItCouldBefore: a wrapper embeds the store and loses nothing
// of what is optional.
func TestWrappedStoreCanDoWhatItCouldBefore(t *testing.T) {
	mem, impaired := memstore.New(), false
	inner := described{mem, func(d *driver.Description) {
		d.Partition = func(string) string { return "here" }
		d.Identity = func(context.Context) (string, error) { return "one", nil }
		d.OnImpaired = func(func(error)) { impaired = true }
	}}
	wrapped := &wrapper{Store: inner}
	eng := newEngine(t, wrapped, core.WithHooks(observe.Hooks{StoreImpaired: func(string, error) {}}))
	if can := author.Describe(eng); !can.Shared || !can.Permits || !can.Sets || !can.Ledger || !can.Inspector {
		t.Errorf("it can do only %+v", can)
	}
	l := mustAcquire(t, eng, "k")
	defer mustRelease(t, l)
	if core.Observed(l).Store() != "memory" || !impaired || wrapped.acquires.Load() != 1 {
		t.Errorf("store %q, impairment asked for: %v, %d acquisitions", core.Observed(l).Store(), impaired, wrapped.acquires.Load())
	}
}

// described is a store that describes itself otherwise.
type described struct {
	driver.Store
	change func(*driver.Description)
}

func (d described) Describe() driver.Description {
	about := d.Store.Describe()
	d.change(&about)
	return about
}
