package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/store/redisstore"
)

// keysLeft lists the keys in the database, without the counter and the reasons of forced
// releases.
func keysLeft(t testing.TB, server *redistest.Server) []string {
	t.Helper()
	keys, err := server.Client().Keys(context.Background(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(keys, func(key string) bool {
		return key == "{lock:}:token" || strings.HasSuffix(key, "}:f")
	})
}

// TestMarkerKeepsForeignClientsOut: SET NX finds the key taken in every mode, for
// as long as the last holder has it; and a foreign lock is in everybody's way.
func TestMarkerKeepsForeignClientsOut(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	server := redistest.Start(t)
	admin := server.Client()
	s := open(t, server.Client())
	for name, claim := range map[string]driver.Claim{"shared": driver.Shared("s"), "permit": driver.Permit("p", 3)} {
		lock := "lock:" + claim.Key
		short, err := s.Acquire(ctx, driver.Request{Owner: "short", Claims: []driver.Claim{claim}, TTL: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		long := lease(t, s, "long", claim)
		if taken := admin.SetNX(ctx, lock, "foreign", time.Minute).Val(); taken {
			t.Errorf("%s: a foreign client took the key from its holders", name)
		}
		brief, err := s.Acquire(ctx, driver.Request{Owner: "brief", Claims: []driver.Claim{claim}, TTL: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		if left := admin.PTTL(ctx, lock).Val(); left < 55*time.Second {
			t.Errorf("%s: a shorter lease lowered the marker's time to %v", name, left)
		}
		release(t, s, brief)
		if err := renew(t, s, short); err != nil {
			t.Errorf("%s: Renew: %v", name, err)
		}
		if left := admin.PTTL(ctx, lock).Val(); left < 55*time.Second {
			t.Errorf("%s: a shorter renewal lowered the marker's time to %v", name, left)
		}
		release(t, s, long)
		if left := admin.PTTL(ctx, lock).Val(); left > 10*time.Second || left < 5*time.Second {
			t.Errorf("%s: the marker lasts for %v, its only holder for 10s", name, left)
		}
		release(t, s, short)
		if taken := admin.SetNX(ctx, lock, "foreign", time.Minute).Val(); !taken {
			t.Errorf("%s: the key is not free after its last holder", name)
		}
		if e := held(t, s, claim); e.Holder != "foreign" {
			t.Errorf("%s: held by %q", name, e.Holder)
		}
		if err := renew(t, s, short); !errors.Is(err, driver.ErrLeaseLost) {
			t.Errorf("%s: Renew with a foreign lock in place: %v", name, err)
		}
		admin.Del(ctx, lock)
	}
	if left := keysLeft(t, server); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestStaleHolders: if a marker was deleted, or a foreign client has replaced it, the holders
// beside it do not come back with the next marker.
func TestStaleHolders(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, server.Client())
	old := lease(t, s, "old", driver.Shared("k"))
	server.Client().Del(context.Background(), "lock:k")
	lease(t, s, "new", driver.Shared("k"))
	if err := renew(t, s, old); !errors.Is(err, driver.ErrLeaseLost) {
		t.Errorf("want ErrLeaseLost, got %v", err)
	}
	if err := s.Release(within(t, time.Second), old); !errors.Is(err, driver.ErrLeaseLost) {
		t.Errorf("want ErrLeaseLost, got %v", err)
	}
}

// TestDeadHolder: of several holders the one that is not renewed ends alone, and
// the next gets its place.
func TestDeadHolder(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	server := redistest.Start(t)
	s := open(t, server.Client(), noPolling)
	die := func(claim driver.Claim) driver.Grant {
		g, err := s.Acquire(ctx, driver.Request{Owner: "dead", Claims: []driver.Claim{claim}, TTL: 200 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	lives := lease(t, s, "lives", driver.Permit("p", 2))
	dead := die(driver.Permit("p", 2))
	if e := held(t, s, driver.Permit("p", 2)); e.RetryAfter > 200*time.Millisecond || e.Holder != "lives" {
		t.Errorf("%+v: a place comes free in 200ms, and who lives has most time left", e)
	}
	enqueueFor(t, s, "next", driver.Permit("p", 2)).granted(soon)
	if err := renew(t, s, dead); !errors.Is(err, driver.ErrLeaseLost) {
		t.Errorf("want ErrLeaseLost, got %v", err)
	}
	if err := renew(t, s, lives); err != nil {
		t.Error(err)
	}

	lives = lease(t, s, "lives", driver.Shared("s"))
	dead = die(driver.Shared("s"))
	w := enqueueFor(t, s, "writer", driver.Exclusive("s"))
	eventually(t, soon, "the dead one's lease is over", func() bool {
		return errors.Is(renew(t, s, driver.Grant{Owner: "dead", Claims: dead.Claims, TTL: time.Millisecond, Token: dead.Token}), driver.ErrLeaseLost)
	})
	select {
	case <-w.done:
		t.Fatal("the writer is in while a reader lives")
	default:
	}
	release(t, s, lives)
	w.granted(soon)
}

// TestRollingDeploy: N is each request's own.
func TestRollingDeploy(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, server.Client(), noPolling)
	var old []driver.Grant
	for i := range 3 {
		old = append(old, lease(t, s, fmt.Sprint("old", i), driver.Permit("k", 3)))
	}
	held(t, s, driver.Permit("k", 2))
	lease(t, s, "new", driver.Permit("k", 4))
	few, many := enqueueFor(t, s, "few", driver.Permit("k", 2)), enqueueFor(t, s, "many", driver.Permit("k", 4))
	release(t, s, old[0])
	release(t, s, old[1]) // two are left: not fewer than 2
	select {
	case <-few.done:
		t.Fatal("two are in force, and a request for one of two was granted")
	case <-many.done:
		t.Fatal("a request with a greater N has overtaken")
	default:
	}
	release(t, s, old[2])
	few.granted(soon)
	many.granted(soon)
}

// TestDowngrade keeps the token and lets the waiting readers in.
func TestDowngrade(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, server.Client(), noPolling)
	g := lease(t, s, "o", driver.Exclusive("k"))
	writer := enqueueFor(t, s, "writer", driver.Exclusive("k"))
	reader := enqueueFor(t, s, "reader", driver.Shared("k"))
	down := g
	down.Claims = []driver.Claim{driver.Shared("k")}
	if err := s.Downgrade(within(t, time.Second), down); err != nil {
		t.Error(err)
	}
	release(t, s, reader.granted(soon))
	if err := renew(t, s, g); !errors.Is(err, driver.ErrLeaseLost) {
		t.Errorf("renewed as exclusive: %v", err)
	}
	var own *driver.DeadlockError
	_, err := s.Acquire(within(t, time.Second), driver.Request{Owner: "o", Claims: []driver.Claim{driver.Exclusive("k")}, TTL: time.Minute})
	if !errors.As(err, &own) || own.Held.Mode != driver.ModeShared || own.Wanted.Mode != driver.ModeExclusive || errors.Is(err, driver.ErrHeld) {
		t.Errorf("an upgrade: want a DeadlockError, got %v", err)
	}
	if err := renew(t, s, down); err != nil {
		t.Errorf("after a refused upgrade: %v", err)
	}
	release(t, s, down)
	writer.granted(soon)
}

// TestPhases: the waiters that get in at the end of each phase.
func TestPhases(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, server.Client(), noPolling)
	x := lease(t, s, "x", driver.Exclusive("k"))
	w1 := enqueueFor(t, s, "w1", driver.Exclusive("k"))
	r1 := enqueueFor(t, s, "r1", driver.Shared("k"))
	w2 := enqueueFor(t, s, "w2", driver.Permit("k", 1))
	r2 := enqueueFor(t, s, "r2", driver.Shared("k"))
	if e := held(t, s, driver.Exclusive("k")); e.Ahead != 4 || e.Holder != "x" {
		t.Errorf("%+v: four are ahead", e)
	}
	release(t, s, x)
	a, b := r1.granted(soon), r2.granted(soon)             // both, wherever they stood
	if e := held(t, s, driver.Shared("k")); e.Ahead != 2 { // a writer waits
		t.Errorf("%+v: two are ahead", e)
	}
	release(t, s, a)
	r3 := enqueueFor(t, s, "r3", driver.Shared("k"))
	release(t, s, b)
	a = w1.granted(soon) // after the last reader, the line
	release(t, s, a)
	release(t, s, r3.granted(soon))
	w4 := enqueueFor(t, s, "w4", driver.Exclusive("k"))
	a = w2.granted(soon)
	r5 := enqueueFor(t, s, "r5", driver.Shared("k"))
	release(t, s, a) // the last permit
	a = r5.granted(soon)
	r6 := enqueueFor(t, s, "r6", driver.Shared("k"))
	w4.cancel() // the line is empty: readers join
	w4.refused(soon)
	release(t, s, r6.granted(soon))
	release(t, s, a)
	if left := keysLeft(t, server); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestDeadWriter in line keeps readers out for no longer than it takes to see
// that nobody listens.
func TestDeadWriter(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	p := servertest.NewProxy(t, server.Addr())
	s, other := open(t, server.Client()), open(t, throughProxy(server, p, once))
	lease(t, s, "reader", driver.Shared("k"))
	enqueueFor(t, other, "writer", driver.Exclusive("k"))
	held(t, s, driver.Shared("k"))
	p.Cut()
	eventually(t, soon, "readers are let in", func() bool {
		_, err := s.Acquire(context.Background(), driver.Request{Owner: "second", Claims: []driver.Claim{driver.Shared("k")}, TTL: time.Minute})
		return err == nil
	})
}

// TestOutOfMemoryInEveryMode: nothing new, but what is held is kept and released.
func TestOutOfMemoryInEveryMode(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	server := redistest.Start(t)
	s := open(t, server.Client(), noPolling)
	grants := []driver.Grant{
		lease(t, s, "reader", driver.Shared("s")), lease(t, s, "reader2", driver.Shared("s")),
		lease(t, s, "permit", driver.Permit("p", 3)),
		lease(t, s, "set", driver.Exclusive("a"), driver.Shared("b"), driver.Permit("c", 1)),
	}
	w := enqueueFor(t, s, "w", driver.Shared("a"))
	forced := lease(t, s, "forced", driver.Shared("f"))
	set(t, server, "maxmemory", "1mb")
	for _, claims := range [][]driver.Claim{
		{driver.Shared("s")},
		{driver.Permit("p", 3)},
		{driver.Shared("free")},
		{driver.Permit("free", 1)},
		{driver.Exclusive("free"), driver.Exclusive("free2")},
		{driver.Shared("free"), driver.Shared("s")},
	} {
		_, err := s.Acquire(within(t, time.Second), driver.Request{Owner: "o", Claims: claims, TTL: time.Minute})
		if !errors.Is(err, redisstore.ErrOutOfMemory) {
			t.Errorf("%v: want ErrOutOfMemory, got %v", claims, err)
		}
	}
	if n := server.Client().ZCard(ctx, "{lock:s}:h").Val(); n != 2 {
		t.Errorf("a refused reader is among the %d holders", n)
	}
	for i, err := range s.Renew(within(t, time.Second), grants) {
		if err != nil {
			t.Errorf("Renew of %v: %v", grants[i].Claims, err)
		}
	}
	if _, err := s.ForceRelease(within(t, time.Second), "f", "why"); err != nil {
		t.Errorf("ForceRelease: %v", err)
	}
	if err := renew(t, s, forced); !errors.Is(err, driver.ErrLeaseLost) {
		t.Errorf("want ErrLeaseLost, got %v", err)
	}
	for _, g := range grants {
		release(t, s, g)
	}
	g := w.granted(soon)
	if err := renew(t, s, g); err != nil {
		t.Error(err)
	}
	release(t, s, g)
	if left := keysLeft(t, server); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestSideKeysOfAWrongType fail what needs them, and nothing runs unlocked.
func TestSideKeysOfAWrongType(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	server := redistest.Start(t)
	admin := server.Client()
	s := open(t, server.Client())
	for side, claim := range map[string]driver.Claim{
		"h": driver.Shared("k"), "i": driver.Permit("k", 2), "q": driver.Exclusive("k"), "s": driver.Exclusive("k"),
	} {
		admin.FlushAll(ctx)
		g := lease(t, s, "o", claim)
		other := lease(t, s, "o2", driver.Exclusive("z"))
		admin.Del(ctx, "{lock:k}:"+side)
		admin.Set(ctx, "{lock:k}:"+side, "x", 0)
		if claim.Mode != driver.ModeExclusive {
			_, err := s.Acquire(within(t, time.Second), driver.Request{Owner: "n", Claims: []driver.Claim{claim}, TTL: time.Minute})
			if !errors.Is(err, redisstore.ErrWrongType) || errors.Is(err, driver.ErrUnavailable) {
				t.Errorf("%s: want ErrWrongType, got %v", side, err)
			}
		}
		// A set frees what it can.
		g.Owner, g.Claims, g.Token = "o", []driver.Claim{claim, driver.Exclusive("z")}, 0
		admin.Set(ctx, "lock:z", "o:1763683200000000:0:1:", time.Minute)
		err := s.Release(within(t, time.Second), g)
		if claim.Mode == driver.ModeExclusive && err != nil {
			t.Errorf("%s: Release: %v", side, err)
		}
		if claim.Mode != driver.ModeExclusive && !errors.Is(err, driver.ErrLeaseLost) {
			t.Errorf("%s: Release: want ErrLeaseLost, got %v", side, err)
		}
		if admin.Exists(ctx, "lock:z").Val() != 0 {
			t.Errorf("%s: the rest of the set is still locked", side)
		}
		_ = other
	}
}
