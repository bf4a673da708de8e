package zkstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/internal/storetest"
	"github.com/keyturn/keyturn/internal/zktest"
	"github.com/keyturn/keyturn/store/zkstore"
)

// TestLeaderIsKilled: leases and places in queues outlive the leader. A holder that died before is
// blocked for by its lease for two TTLs at most. Tokens go on rising.
func TestLeaderIsKilled(t *testing.T) {
	servertest.LongParallel(t)
	e := zktest.StartEnsemble(t)
	root := newRoot()
	a, b := openAll(t, e.Addrs(), root), openAll(t, e.Addrs(), root)
	const ttl = 3 * time.Second
	kept := hold(t, a, request("kept", time.Minute))
	waits := enqueue(t, b, request("kept", time.Minute))
	dead := hold(t, a, request("dead", ttl))
	next := enqueue(t, b, request("dead", time.Minute))

	e.Servers[e.Leader(t)].Kill()
	eventually(t, "the lease is renewed under the next leader", func() bool {
		err := a.Renew(t.Context(), []driver.Grant{kept})[0]
		require(t, !errors.Is(err, driver.ErrLeaseLost), "the lease: %v", err)
		return err == nil
	})
	leads := time.Now() // an election takes seconds on a busy machine
	toldItIsHeld(t, b, "kept")
	g := next.Granted()
	early := time.Until(dead.Since.Add(ttl))
	check(t, early <= 0, "the dead holder's lease ended %v too early", early)
	late := time.Since(leads) - ttl
	check(t, late <= 10*time.Second, "under the next leader, the dead holder's lease ended %v after its TTL", late)
	check(t, g.Token > dead.Token, "token %d after %d", g.Token, dead.Token)
	release(t, a, kept)
	release(t, b, waits.Granted())
}

// TestFollowerIsCutOff: a follower that does not hear the leader any more serves old data for a
// while. A store behind it is not granted what is held, and is not told that its lease is lost.
func TestFollowerIsCutOff(t *testing.T) {
	servertest.LongParallel(t)
	e := zktest.StartSplittable(t)
	root := newRoot()
	leader, follower := e.Leader(t), e.Follower(t)
	behind := openAll(t, []string{e.Servers[follower].Addr()}, root)
	other := openAll(t, []string{e.Servers[leader].Addr()}, root)
	release(t, behind, hold(t, behind, request("k", time.Minute))) // it has seen the key free
	mine := hold(t, behind, request("mine", time.Minute))

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
		require(t, err != nil, "two hold the key: tokens %d and %d", held.Token, g.Token)
		err = behind.Renew(ctx, []driver.Grant{mine})[0]
		require(t, !errors.Is(err, driver.ErrLeaseLost), "a lease that nobody took: %v", err)
	}
	e.Join(follower, leader)
	eventually(t, "the store behind the follower is back", func() bool {
		return behind.Renew(t.Context(), []driver.Grant{mine})[0] == nil
	})
	toldItIsHeld(t, behind, "k")
	release(t, other, held)
}

// toldItIsHeld waits until a store is told that a key is held. It must not be granted it.
func toldItIsHeld(t *testing.T, s *zkstore.Store, key string) {
	t.Helper()
	eventually(t, "the store is told that the key is held", func() bool {
		g, err := s.Acquire(t.Context(), request(key, time.Minute))
		require(t, err != nil, "two hold the key: %+v", g)
		return errors.Is(err, driver.ErrHeld)
	})
}

// TestSameVersionsAgain: ZooKeeper has lost its data, and the version that a store remembers of a key comes
// again. What the store remembers must not let it in beside an owner that was granted the key since.
func TestSameVersionsAgain(t *testing.T) {
	servertest.LongParallel(t)
	server, root := zktest.Start(t), newRoot()
	s := openAll(t, []string{server.Addr()}, root) // whose client outlasts the outage
	storetest.Use(t, s, "k")
	forget(t, server)
	// Servers refuse clients that have seen later transactions.
	c, made := admin(t, server.Addr()), 0
	eventually(t, "the server has as many transactions", func() bool {
		if _, err := c.Create("/filler-", nil, zk.FlagSequence, zk.WorldACL(zk.PermAll)); err == nil {
			made++ // after an error, such as the end of a session, it goes on
		}
		return made >= 100
	})
	other := open(t, server.Addr(), root)
	first := hold(t, other, request("k", time.Minute))
	w := enqueue(t, other, request("k", time.Minute))
	release(t, open(t, server.Addr(), root), first) // which decides once: the granting store would write a version more
	must(t, other.Renew(t.Context(), []driver.Grant{w.Granted()})[0])
	storetest.Use(t, s, "another") // it knows the leader's clock then
	storetest.IsHeld(t, s, request("k", time.Minute))
}
