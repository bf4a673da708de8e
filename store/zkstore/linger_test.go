package zkstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/zktest"
)

// TestLeasesLinger: a process that asks for the same key again writes nothing. Another one that wants the
// key gets it at once.
func TestLeasesLinger(t *testing.T) {
	t.Parallel()
	addr, root := zktest.Shared(t).Addr(), newRoot()
	engine := func() *core.Engine {
		eng, err := core.New(open(t, addr, root), core.WithLinger(time.Minute), core.WithMaxWait(20*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = eng.Close(context.Background()) })
		return eng
	}
	a, b := engine(), engine()
	c := admin(t, addr)
	nothing := func(context.Context) error { return nil }
	writes := func() (version int32) {
		_, stat, err := c.Exists(lockNode(root, "k"))
		if err != nil {
			t.Fatal(err)
		}
		return stat.Version
	}
	// The first request begins to listen, and leases linger from then on.
	eventually(t, "a lease lingers", func() bool {
		before := writes()
		if err := a.Do(t.Context(), "k", nothing); err != nil {
			t.Fatal(err)
		}
		return writes() == before
	})
	before := writes()
	for range 50 {
		if err := a.Do(t.Context(), "k", nothing); err != nil {
			t.Fatal(err)
		}
	}
	if n := writes() - before; n > 0 {
		t.Errorf("%d writes for 50 leases", n)
	}
	if err := b.Do(t.Context(), "k", nothing); err != nil {
		t.Errorf("the other process: %v", err)
	}
	// One that does not wait is refused, and served soon after.
	eventually(t, "the first process is served", func() bool {
		return a.Do(t.Context(), "k", nothing, core.WithFailFast()) == nil
	})
}
