package migrating

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/store/redisstore"
)

const (
	longTTL  = 30 * time.Second // outlasts every test
	shortTTL = 800 * time.Millisecond
	soon     = 10 * time.Second // longer than anything takes that happens at all
)

var must = checktest.Must

// beside runs a test for each library, with an engine on the same servers.
func beside(t *testing.T, ttl time.Duration, test func(t *testing.T, p *peer, addrs []string, old library, eng *core.Engine)) {
	t.Parallel()
	for i := range peers {
		p := &peers[i]
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			run(t, p, ttl, test)
		})
	}
}

// run runs a test with a library and an engine on servers of its own.
func run(t *testing.T, p *peer, ttl time.Duration, test func(t *testing.T, p *peer, addrs []string, old library, eng *core.Engine)) {
	t.Helper()
	var addrs []string
	for range p.nodes {
		addrs = append(addrs, redistest.Start(t).Addr())
	}
	if p.nodes > 1 {
		must(t, initNodes(t.Context(), addrs))
	}
	old, err := p.open(addrs, ttl)
	must(t, err)
	t.Cleanup(old.close)
	eng, end, err := p.engine(addrs)
	must(t, err)
	t.Cleanup(end)
	test(t, p, addrs, old, eng)
}

// take has callers of each of two versions of a service charge at once, and checks that one charge
// goes on at a time.
func take(t *testing.T, versions ...func(ctx context.Context, order string, charge work) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*soon)
	defer cancel()
	var inside, charges atomic.Int32
	charge := func(context.Context) error {
		if n := inside.Add(1); n != 1 {
			t.Errorf("%d inside", n)
		}
		time.Sleep(time.Millisecond) // the section
		charges.Add(1)
		inside.Add(-1)
		return nil
	}
	const callers, times = 2, 10
	var all sync.WaitGroup
	for range callers {
		for _, serialized := range versions {
			all.Go(func() {
				for range times {
					if err := serialized(ctx, "7", charge); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	all.Wait()
	if n, want := int(charges.Load()), len(versions)*callers*times; n != want {
		t.Errorf("%d charges of %d", n, want)
	}
}

// TestTakeTurns runs a service with the old lock and with keyturn at once, as two versions of it do
// during a roll-out.
func TestTakeTurns(t *testing.T) {
	beside(t, longTTL, func(t *testing.T, p *peer, _ []string, old library, eng *core.Engine) {
		take(t, old.before, func(ctx context.Context, order string, charge work) error { return p.after(ctx, eng, order, charge) })
	})
}

// TestBoth: where nothing is shared, a version between holds both locks. It takes turns with the
// old version, and then with the new one. Another prefix stands for another kind of lock.
func TestBoth(t *testing.T) {
	t.Parallel()
	apart := *peerNamed("redislock")
	apart.prefix = "another:"
	run(t, &apart, longTTL, func(t *testing.T, _ *peer, _ []string, old library, eng *core.Engine) {
		both := func(ctx context.Context, order string, charge work) error {
			return withBoth(ctx, eng, old.before, order, charge)
		}
		take(t, old.before, both)
		take(t, both, keyturnOn(eng))
	})
}

// keyturnOn is the new version of a service.
func keyturnOn(eng *core.Engine) func(ctx context.Context, order string, charge work) error {
	return func(ctx context.Context, order string, charge work) error {
		return withKeyturn(ctx, eng, order, charge)
	}
}

// TestMoveFromPrefix: from the keys of a library to those of an engine with another prefix. The
// engine between holds both: core.WithMoveFrom.
func TestMoveFromPrefix(t *testing.T) {
	t.Parallel()
	apart := *peerNamed("redislock")
	run(t, &apart, longTTL, func(t *testing.T, _ *peer, addrs []string, old library, shared *core.Engine) {
		client := clientsOf(addrs)[0]
		t.Cleanup(func() { _ = client.Close() })
		engine := func(opts ...core.EngineOption) func(ctx context.Context, order string, charge work) error {
			store, err := redisstore.New(client, redisstore.WithPrefix("another:"))
			must(t, err)
			eng, err := core.New(store, opts...)
			must(t, err)
			t.Cleanup(func() { _ = eng.Close(context.Background()) })
			return keyturnOn(eng)
		}
		between := engine(core.WithMoveFrom(shared))
		take(t, old.before, between)
		take(t, between, engine())
	})
}

// TestExclude: whoever has the lock refuses the other, also while it renews beyond its TTL, and the
// other gets it after the release.
func TestExclude(t *testing.T) {
	beside(t, shortTTL, func(t *testing.T, p *peer, _ []string, old library, eng *core.Engine) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*soon)
		defer cancel()

		l, err := old.try(ctx, "7")
		must(t, err)
		granted := make(chan *core.Lease, 1)
		go func() {
			lease, err := p.acquire(ctx, eng, "7", core.WithTTL(shortTTL))
			if err != nil {
				t.Error(err)
			}
			granted <- lease
		}()
		for since := time.Now(); time.Since(since) < 2*shortTTL; time.Sleep(shortTTL / 8) {
			must(t, l.renew(ctx))
			if lease, err := p.acquire(ctx, eng, "7", core.WithFailFast()); !errors.Is(err, core.ErrHeld) {
				t.Fatalf("keyturn beside %s: %v, %v", p.name, lease, err)
			}
		}
		must(t, l.release(ctx))
		lease := <-granted
		if lease == nil {
			return
		}
		for since := time.Now(); time.Since(since) < 2*shortTTL; time.Sleep(shortTTL / 8) {
			if _, err := old.try(ctx, "7"); !errors.Is(err, errTaken) {
				t.Fatalf("%s beside keyturn: %v", p.name, err)
			}
		}
		must(t, lease.Release(ctx))
		l, err = old.try(ctx, "7")
		must(t, err)
		must(t, l.release(ctx))
	})
}
