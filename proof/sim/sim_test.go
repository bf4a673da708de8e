//go:build !race

package sim_test // one event follows the other, which the race detector can't know

import (
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/proof/sim"
)

var (
	operations = flag.Int("operations", 0, "make histories until they have so `many` operations; 0: 100 000 of redisstore, 20 000 of the others, and a tenth with -short")
	seed       = flag.Uint64("seed", 1, "the seed of the first history; each following one has the next `number`")
	faults     = flag.String("faults", "", "the `numbers` of the faults that strike, such as 3,12; 0 is none")
)

func TestMain(m *testing.M) {
	redistest.Quiet() // connections break all the time
	m.Run()
}

// TestFleet: whatever strikes, nothing is wrong that the guarantees do not admit.
func TestFleet(t *testing.T) {
	for _, c := range []struct {
		store string
		most  int
	}{
		{sim.Redisstore, 100_000},
		{sim.Redlock, 20_000},
		{sim.Natsstore, 20_000},
		{sim.Sqlstore, 20_000},
		{sim.Etcdstore, 20_000},
		{sim.Zkstore, 20_000},
	} {
		t.Run(c.store, func(t *testing.T) { simulate(t, sim.Run{Store: c.store}, c.most) })
	}
}

func simulate(t *testing.T, r sim.Run, most int) {
	if testing.Short() {
		most /= 10
	}
	if *operations > 0 {
		most = *operations
	}
	r.Seed = *seed
	for nr := range strings.SplitSeq(*faults, ",") {
		if n, err := strconv.Atoi(nr); err == nil {
			r.Only = append(r.Only, n)
		}
	}
	var sum sim.Sum
	for ; sum.Operations < most; r.Seed++ {
		h := sim.Make(t, r)
		if h.Wrong != nil {
			t.Fatal(sim.Shrink(t, r, h))
		}
		sum.Add(h)
	}
	sum.Check(t)
	t.Logf("%d operations, %d faults, seeds %d to %d", sum.Operations, sum.Faults, *seed, r.Seed-1)
}

// reproducible reports whether a bubble always does the same: see scripts/reproducible.
func reproducible(t *testing.T) bool {
	var drawn [2]uint64
	for i := range drawn {
		synctest.Test(t, func(*testing.T) { drawn[i] = rand.Uint64() })
	}
	return drawn[0] == drawn[1]
}

// TestSameSeed: a seed gives the same history again, whatever was before it. A busy machine now and then
// comes in between (see the package comment, also for zkstore), so two of five must be the same.
func TestSameSeed(t *testing.T) {
	if !reproducible(t) {
		t.Skip("this needs scripts/reproducible")
	}
	runs := []sim.Run{
		{Seed: 0},
		{Seed: 1},
		{Store: sim.Redlock},
		{Store: sim.Natsstore},
		{Store: sim.Natsstore, Seed: 1},
		{Store: sim.Sqlstore},
		{Store: sim.Etcdstore},
	}
	made := make([][]string, len(runs))
	repeated := make([]bool, len(runs))
	for range 5 {
		for i, r := range runs {
			if repeated[i] {
				continue
			}
			is := sim.Make(t, r).Fingerprint()
			repeated[i] = slices.Contains(made[i], is)
			made[i] = append(made[i], is)
		}
	}
	for i, r := range runs {
		if !repeated[i] {
			t.Errorf("seed %d of %q made %d histories", r.Seed, r.Store, len(made[i]))
		}
	}
}

// TestBrokenStoresAreFound: a simulation that finds nothing proves nothing.
func TestBrokenStoresAreFound(t *testing.T) {
	for name, c := range map[string]struct {
		wrap func(driver.Store) driver.Store
		says string
	}{
		"the answer to a renewal is not read":     {func(s driver.Store) driver.Store { return deaf{s} }, ""},
		"one permit more than asked for":          {func(s driver.Store) driver.Store { return generous{s} }, "together"},
		"a lease ends too soon":                   {func(s driver.Store) driver.Store { return stingy{s} }, "together"},
		"a lease in force is called lost":         {func(s driver.Store) driver.Store { return &alarmist{Store: s} }, "told of a loss"},
		"what is downgraded is free":              {func(s driver.Store) driver.Store { return freeing{s} }, "together"},
		"what is extended is not":                 {func(s driver.Store) driver.Store { return brief{s} }, "together"},
		"a renewal brings back what was taken":    {func(s driver.Store) driver.Store { return stubborn{s} }, "taken away"},
		"what is taken away stays with its owner": {func(s driver.Store) driver.Store { return polite{s} }, "taken away"},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(10) {
				h := sim.Make(t, sim.Run{Seed: seed, TTL: usualTTL, Wrap: c.wrap})
				if h.Wrong != nil && strings.Contains(h.Wrong.Error(), c.says) {
					t.Log(h.Wrong)
					return
				}
			}
			t.Errorf("nothing that says %q is wrong with ten histories", c.says)
		})
	}
}

// usualTTL is that of all leases that nobody extends.
const usualTTL = time.Second

type deaf struct{ driver.Store }

func (s deaf) Renew(ctx context.Context, grants []driver.Grant) []error {
	errs := s.Store.Renew(ctx, grants)
	clear(errs)
	return errs
}

type generous struct{ driver.Store }

func (s generous) Acquire(ctx context.Context, req driver.Request) (driver.Grant, error) {
	if req.Claims[0].Mode == driver.ModePermit {
		claims := []driver.Claim{req.Claims[0]}
		claims[0].Permits++
		req.Claims = claims
	}
	return s.Store.Acquire(ctx, req)
}

type stingy struct{ driver.Store }

func (s stingy) Acquire(ctx context.Context, req driver.Request) (driver.Grant, error) {
	ttl := req.TTL
	req.TTL /= 4
	g, err := s.Store.Acquire(ctx, req)
	g.TTL = ttl
	return g, err
}

type freeing struct{ driver.Store }

func (s freeing) Downgrade(ctx context.Context, g driver.Grant) error {
	err := s.Store.Downgrade(ctx, g)
	if err == nil {
		_ = s.Store.Release(ctx, g)
	}
	return err
}

type brief struct{ driver.Store }

func (s brief) Renew(ctx context.Context, grants []driver.Grant) []error {
	for i := range grants {
		if grants[i].TTL != usualTTL {
			grants[i].TTL = usualTTL / 8
		}
	}
	return s.Store.Renew(ctx, grants)
}

type stubborn struct{ driver.Store }

func (s stubborn) Renew(ctx context.Context, grants []driver.Grant) []error {
	errs := s.Store.Renew(ctx, grants)
	for i, g := range grants {
		if errors.Is(errs[i], driver.ErrLeaseLost) {
			_, errs[i] = s.Store.Acquire(ctx, driver.Request{Owner: g.Owner, Claims: g.Claims, TTL: g.TTL})
		}
	}
	return errs
}

type polite struct{ driver.Store }

func (s polite) ForceRelease(_ context.Context, _, _ string, only ...driver.Holder) ([]driver.Holder, error) {
	return only, nil
}

type alarmist struct {
	driver.Store
	renewals atomic.Int64
}

func (s *alarmist) Renew(ctx context.Context, grants []driver.Grant) []error {
	errs := s.Store.Renew(ctx, grants)
	if s.renewals.Add(1)%20 == 0 {
		errs[0] = core.ErrLeaseLost
	}
	return errs
}
