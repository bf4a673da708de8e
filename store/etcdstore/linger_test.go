package etcdstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/etcdtest"
	"github.com/keyturn/keyturn/store/etcdstore/internal/clienttest"
)

// TestLeasesLinger: a process that asks for the same key again writes nothing. Another one that wants the
// key gets it at once.
func TestLeasesLinger(t *testing.T) {
	t.Parallel()
	c := clienttest.New(t, etcdtest.Start(t).Addr())
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
	revision := func() int64 {
		r, err := c.Get(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		return r.Header.Revision
	}
	// The first request begins to listen, and leases linger from then on.
	for end := time.Now().Add(soon); ; time.Sleep(time.Millisecond) {
		before := revision()
		if err := a.Do(t.Context(), "k", nothing); err != nil {
			t.Fatal(err)
		}
		if revision() == before {
			break
		}
		if time.Now().After(end) {
			t.Fatal("no lease lingers")
		}
	}
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
	for end := time.Now().Add(soon); ; time.Sleep(time.Millisecond) {
		err := a.Do(t.Context(), "k", nothing, core.WithFailFast())
		if err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("it is refused for ever: %v", err)
		}
	}
}
