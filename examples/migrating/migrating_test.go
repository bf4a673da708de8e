package migrating

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/redistest"
)

const (
	longTTL  = 30 * time.Second // outlasts every test
	shortTTL = 800 * time.Millisecond
	soon     = 10 * time.Second // longer than anything takes that happens at all
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// must fails the test at once.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// beside runs a test for each library, with an engine on the same servers, which are the test's own.
func beside(t *testing.T, ttl time.Duration, test func(t *testing.T, p *peer, addrs []string, old library, eng *core.Engine)) {
	t.Parallel()
	for i := range peers {
		p := &peers[i]
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
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
		})
	}
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

// ends checks that no key of the order's lock stays for longer than the TTL if its holder is killed.
func (p *peer) ends(t *testing.T, addrs []string) {
	t.Helper()
	clients := clientsOf(addrs)
	defer closeAll(clients)
	for _, claim := range p.claimed("7") {
		for _, client := range clients {
			left, err := client.PTTL(t.Context(), p.prefix+claim.Key).Result()
			if err != nil || left <= 0 || left > shortTTL {
				t.Errorf("%s stays for %v, %v", claim.Key, left, err)
			}
		}
	}
}

// TestExclude: whoever has the lock refuses the other, also while it renews beyond its TTL, and the
// other gets it after the release. A process that is killed, of either side, keeps the other out for its TTL at most.
func TestExclude(t *testing.T) {
	beside(t, shortTTL, func(t *testing.T, p *peer, addrs []string, old library, eng *core.Engine) {
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
		p.ends(t, addrs)
		for since := time.Now(); time.Since(since) < 2*shortTTL; time.Sleep(shortTTL / 8) {
			if err := l.renew(ctx); err != nil {
				t.Fatalf("%s can't renew: %v", p.name, err)
			}
			if lease, err := p.acquire(ctx, eng, "7", core.WithFailFast()); !errors.Is(err, core.ErrHeld) {
				t.Fatalf("keyturn beside %s: %v, %v", p.name, lease, err)
			}
		}
		if err := l.release(ctx); err != nil {
			t.Fatalf("%s can't release: %v", p.name, err)
		}
		lease := <-granted
		if lease == nil {
			return
		}
		p.ends(t, addrs)
		for since := time.Now(); time.Since(since) < 2*shortTTL; time.Sleep(shortTTL / 8) {
			if _, err := old.try(ctx, "7"); !errors.Is(err, errTaken) {
				t.Fatalf("%s beside keyturn: %v", p.name, err)
			}
		}
		must(t, lease.Release(ctx))
		l, err = old.try(ctx, "7")
		if err != nil {
			t.Fatalf("%s after keyturn: %v", p.name, err)
		}
		must(t, l.release(ctx))
	})
}
