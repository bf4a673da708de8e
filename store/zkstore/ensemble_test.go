package zkstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/internal/zktest"
	"github.com/keyturn/keyturn/store/zkstore"
)

// openAll makes a store on several servers. Its session is long enough for an election on a busy
// machine.
func openAll(t testing.TB, servers []string, root string, opts ...zkstore.Option) *zkstore.Store {
	t.Helper()
	opts = append([]zkstore.Option{silent, zkstore.WithRoot(root), zkstore.WithSession(10 * time.Second)}, opts...)
	s, err := zkstore.New(t.Context(), servers, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// TestLeaderIsKilled: leases and places in queues outlive the leader. A holder that died before is
// blocked for by its lease for two TTLs at most. Tokens go on rising.
func TestLeaderIsKilled(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	e := zktest.StartEnsemble(t)
	root := newRoot()
	a, b := openAll(t, e.Addrs(), root), openAll(t, e.Addrs(), root)
	const ttl = 3 * time.Second
	kept := mustAcquire(t, a, request("kept", time.Minute))
	waits := enqueue(t, b, request("kept", time.Minute))
	dead := mustAcquire(t, a, request("dead", ttl))
	next := enqueue(t, b, request("dead", time.Minute))

	e.Servers[e.Leader(t)].Kill()
	eventually(t, "the lease is renewed under the next leader", func() bool {
		err := a.Renew(t.Context(), []driver.Grant{kept})[0]
		if errors.Is(err, driver.ErrLeaseLost) {
			t.Fatalf("the lease: %v", err)
		}
		return err == nil
	})
	leads := time.Now() // an election takes seconds on a busy machine
	eventually(t, "the other process is told that the key is held", func() bool {
		_, err := b.Acquire(t.Context(), request("kept", time.Minute))
		if err == nil {
			t.Fatal("the key of the lease was free")
		}
		return errors.Is(err, driver.ErrHeld)
	})
	g := next.granted(t, 30*time.Second)
	if early := time.Until(dead.Since.Add(ttl)); early > 0 {
		t.Errorf("the dead holder's lease ended %v too early", early)
	}
	if late := time.Since(leads) - ttl; late > 10*time.Second {
		t.Errorf("under the next leader, the dead holder's lease ended %v after its TTL", late)
	}
	if g.Token <= dead.Token {
		t.Errorf("token %d after %d", g.Token, dead.Token)
	}
	mustRelease(t, a, kept)
	mustRelease(t, b, waits.granted(t, 10*time.Second))
}

// TestFollowerIsCutOff: a follower that does not hear the leader any more serves old data for a
// while. A store behind it is not granted what is held, and is not told that its lease is lost.
func TestFollowerIsCutOff(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	e := zktest.StartSplittable(t)
	root := newRoot()
	leader, follower := e.Leader(t), e.Follower(t)
	behind := openAll(t, []string{e.Servers[follower].Addr()}, root)
	other := openAll(t, []string{e.Servers[leader].Addr()}, root)
	mustRelease(t, behind, mustAcquire(t, behind, request("k", time.Minute))) // it has seen the key free
	mine := mustAcquire(t, behind, request("mine", time.Minute))

	e.Part(follower, leader)
	// On a busy machine, the leader may lose the other follower, too, for a moment.
	var held driver.Grant
	eventually(t, "the leader goes on with the other follower", func() (ok bool) {
		var err error
		held, err = other.Acquire(t.Context(), request("k", time.Minute))
		return err == nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	for ctx.Err() == nil {
		g, err := behind.Acquire(ctx, request("k", time.Minute))
		if err == nil {
			t.Fatalf("two hold the key: tokens %d and %d", held.Token, g.Token)
		}
		if err := behind.Renew(ctx, []driver.Grant{mine})[0]; errors.Is(err, driver.ErrLeaseLost) {
			t.Fatalf("a lease that nobody took: %v", err)
		}
	}
	e.Join(follower, leader)
	eventually(t, "the store behind the follower is back", func() bool {
		return behind.Renew(t.Context(), []driver.Grant{mine})[0] == nil
	})
	eventually(t, "the store behind the follower is told that the key is held", func() bool {
		g, err := behind.Acquire(t.Context(), request("k", time.Minute))
		if err == nil {
			t.Fatalf("two hold the key: tokens %d and %d", held.Token, g.Token)
		}
		return errors.Is(err, driver.ErrHeld)
	})
	mustRelease(t, other, held)
}
