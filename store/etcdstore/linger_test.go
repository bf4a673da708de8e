package etcdstore_test

import (
	"context"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/keyturn/keyturn/core"
)

// TestLeasesLinger: a process that asks for the same key again writes nothing. Another one that wants the
// key gets it at once.
func TestLeasesLinger(t *testing.T) {
	t.Parallel()
	c := shared(t)
	engine := func() *core.Engine {
		eng, err := core.New(open(t, c), core.WithLinger(time.Minute), core.WithMaxWait(soon))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = eng.Close(context.Background()) })
		return eng
	}
	a, b := engine(), engine()
	nothing := func(context.Context) error { return nil }
	revision := func() (last int64) {
		r, err := c.Get(t.Context(), prefix(t), clientv3.WithPrefix())
		if err != nil {
			t.Fatal(err)
		}
		for _, kv := range r.Kvs {
			last = max(last, kv.ModRevision)
		}
		return last
	}
	// The first request begins to listen, and leases linger from then on.
	eventually(t, "a lease lingers", func() bool {
		before := revision()
		if err := a.Do(t.Context(), "k", nothing); err != nil {
			t.Fatal(err)
		}
		return revision() == before
	})
	before := revision()
	for range 50 {
		if err := a.Do(t.Context(), "k", nothing); err != nil {
			t.Fatal(err)
		}
	}
	if n := revision() - before; n > 0 {
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
