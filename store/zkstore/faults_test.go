package zkstore_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/internal/zktest"
	"github.com/keyturn/keyturn/store/zkstore"
)

// lockNode returns the path of a key's node. The keys of these tests need no escaping.
func lockNode(root, key string) string {
	sum := sha256.Sum256([]byte(key))
	return root + "/b/" + hex.EncodeToString(sum[:])[:3] + "/" + key
}

// nodeOf returns the part of a node's name that says whose it is.
func nodeOf(owner string) string {
	sum := sha256.Sum256([]byte(owner))
	return hex.EncodeToString(sum[:])[:32]
}

// nodes returns the names below a lock that begin with prefix.
func nodes(t testing.TB, c *zk.Conn, lock, prefix string) []string {
	t.Helper()
	names, _, err := c.Children(lock)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		t.Fatal(err)
	}
	var found []string
	for _, name := range names {
		if strings.HasPrefix(name, prefix) {
			found = append(found, name)
		}
	}
	return found
}

// eventually waits for a condition.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after 20 s it is not so that %s", what)
		}
	}
}

// TestLostReplies loses the answer to the request that grants, or joins the queue, and then the
// answer to the first look on the next connection. The owner is served once, and no node of it is
// left (samuel/go-zookeeper#237, apache/curator#835).
func TestLostReplies(t *testing.T) {
	t.Parallel()
	server := zktest.Shared(t)
	root := newRoot()
	c := admin(t, server.Addr())
	other := open(t, server.Addr(), root)
	network := newRelay(t, server.Addr())
	s := open(t, network.listener.Addr().String(), root)
	// lose returns when both answers were lost, and the store's connection works again.
	lose := func(lock, prefix string, begin func()) {
		t.Helper()
		lost := network.loseAnswerTo(opMulti)
		begin()
		<-lost
		eventually(t, "the request was carried out", func() bool { return len(nodes(t, c, lock, prefix)) > 0 })
		lost = network.loseAnswerTo(opList)
		network.cut(true)
		<-lost
		network.cut(true)
	}

	// A grant.
	lock := lockNode(root, "free")
	mustRelease(t, s, mustAcquire(t, s, request("free", time.Minute)))
	req := request("free", time.Minute)
	type result struct {
		driver.Grant
		error
	}
	granted := make(chan result, 1)
	lose(lock, "h-", func() {
		go func() {
			g, err := s.Acquire(t.Context(), req)
			granted <- result{g, err}
		}()
	})
	g := <-granted
	if g.error != nil {
		t.Fatalf("a grant without an answer: %v", g.error)
	}
	if holders := nodes(t, c, lock, ""); len(holders) != 1 || holders[0] != "h-"+nodeOf(req.Owner) {
		t.Errorf("the nodes of one lease: %v", holders)
	}
	mustRelease(t, s, g.Grant)
	if left := nodes(t, c, lock, ""); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}

	// A place in the queue.
	lock = lockNode(root, "held")
	held := mustAcquire(t, other, request("held", time.Minute))
	var w *waiting
	lose(lock, "w-", func() { w = start(t, s, request("held", time.Minute)) })
	w.waits(t)
	if places := nodes(t, c, lock, "w-"); len(places) != 1 {
		t.Errorf("the places of one waiter: %v", places)
	}
	mustRelease(t, other, held)
	mustRelease(t, s, w.granted(t, 10*time.Second))
	if left := nodes(t, c, lock, ""); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestLostReleaseReply: a release without an answer may be repeated, and frees the key
// (apache/curator#1193).
func TestLostReleaseReply(t *testing.T) {
	t.Parallel()
	server := zktest.Shared(t)
	root := newRoot()
	c := admin(t, server.Addr())
	network := newRelay(t, server.Addr())
	s := open(t, network.listener.Addr().String(), root)
	g := mustAcquire(t, s, request("k", time.Minute))
	lost := network.loseAnswerTo(opMulti)
	released := make(chan error, 1)
	go func() { released <- s.Release(t.Context(), g) }()
	<-lost
	eventually(t, "the release was carried out", func() bool {
		return len(nodes(t, c, lockNode(root, "k"), "")) == 0
	})
	network.cut(true)
	if err := <-released; err != nil {
		t.Errorf("a release without an answer: %v", err)
	}
	mustRelease(t, s, mustAcquire(t, s, request("k", time.Minute)))
}

// TestSessionExpires: a process without a network for longer than its session lasts. Its waiter loses
// its place and waits on. Its lease stays, and nobody else gets it (apache/curator#727, #1121).
func TestSessionExpires(t *testing.T) {
	t.Parallel()
	server := zktest.Shared(t)
	root := newRoot()
	c := admin(t, server.Addr())
	other := open(t, server.Addr(), root)
	network := servertest.NewProxy(t, server.Addr())
	s := open(t, network.Addr(), root)
	mine := mustAcquire(t, s, request("mine", time.Minute))
	held := mustAcquire(t, other, request("held", time.Minute))
	first := enqueue(t, s, request("held", time.Minute))
	second := enqueue(t, other, request("held", time.Minute))

	network.Blackhole()
	eventually(t, "the waiter has lost its place", func() bool { return len(nodes(t, c, lockNode(root, "held"), "w-")) == 1 })
	network.Heal()
	eventually(t, "the waiter has a place again", func() bool { return len(nodes(t, c, lockNode(root, "held"), "w-")) == 2 })

	mustRelease(t, other, held)
	mustRelease(t, other, second.granted(t, 10*time.Second))
	mustRelease(t, s, first.granted(t, 10*time.Second))
	if _, err := other.Acquire(t.Context(), request("mine", time.Minute)); !errors.Is(err, driver.ErrHeld) {
		t.Errorf("a lease whose session has expired: %v", err)
	}
	if err := s.Renew(t.Context(), []driver.Grant{mine})[0]; err != nil {
		t.Errorf("its renewal: %v", err)
	}
	mustRelease(t, s, mine)
}

// TestNodeOfAnotherSession: a waiter finds a node of its own name that ends with another session. It
// must not take it for its place (apache/curator#1018).
func TestNodeOfAnotherSession(t *testing.T) {
	t.Parallel()
	server := zktest.Shared(t)
	root := newRoot()
	s := open(t, server.Addr(), root)
	held := mustAcquire(t, s, request("k", time.Minute))
	req := request("k", time.Minute)
	lock := lockNode(root, "k")
	dying := admin(t, server.Addr())
	node, err := dying.Create(lock+"/w-"+nodeOf(req.Owner)+"-x-", []byte(`{"owner":"`+req.Owner+`","ttl":60000000}`), zk.FlagEphemeralSequential, zk.WorldACL(zk.PermAll))
	if err != nil {
		t.Fatal(err)
	}
	w := enqueue(t, s, req)
	if places := nodes(t, dying, lock, "w-"); len(places) != 1 || places[0] == path.Base(node) {
		t.Errorf("the waiter's places are %v, and %s is another session's", places, path.Base(node))
	}
	dying.Close()
	w.waits(t)
	mustRelease(t, s, held)
	mustRelease(t, s, w.granted(t, 10*time.Second))
}

// TestSilentServer: a server that accepts connections and says nothing does not cost the session, so
// waiters keep their places. The client alone would wait for it for longer than the session lasts.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	server := zktest.Shared(t)
	silent, network := servertest.NewProxy(t, server.Addr()), servertest.NewProxy(t, server.Addr())
	silent.Blackhole()
	root := newRoot()
	c := admin(t, server.Addr())
	other := open(t, server.Addr(), root)
	held := mustAcquire(t, other, request("k", time.Minute))
	s := openAll(t, []string{silent.Addr(), network.Addr()}, root, zkstore.WithSession(session))
	w := enqueue(t, s, request("k", time.Minute))
	before := nodes(t, c, lockNode(root, "k"), "w-")
	network.Cut()
	network.Heal()
	mine := mustAcquire(t, s, request("mine", time.Minute)) // once the session is back
	if after := nodes(t, c, lockNode(root, "k"), "w-"); len(after) != 1 || !slices.Equal(before, after) {
		t.Errorf("the places are %v, and were %v", after, before)
	}
	mustRelease(t, s, mine)
	mustRelease(t, other, held)
	mustRelease(t, s, w.granted(t, 10*time.Second))
}

// TestTooLarge: what is more than a server accepts at once is never sent, because the server would
// close the connection.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	s := open(t, zktest.Shared(t).Addr(), newRoot())
	req := request("once", time.Minute)
	g, _, err := s.Begin(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	result := driver.Record{Result: make([]byte, 2<<20), Fingerprint: []byte("f"), Trace: "t"}
	for range 2 {
		if err := s.Complete(t.Context(), g, result, time.Minute); !errors.Is(err, driver.ErrResultNotKept) {
			t.Errorf("a result of 2 MiB: %v", err)
		}
	}
	_, rec, err := s.Begin(t.Context(), request("once", time.Minute))
	if err != nil || rec == nil || !rec.ResultNotKept || rec.Trace != "t" || string(rec.Fingerprint) != "f" {
		t.Errorf("its record is %+v, %v", rec, err)
	}

	many := request("a", time.Minute)
	for i := range 4000 {
		many.Claims = append(many.Claims, driver.Exclusive("b"+hex.EncodeToString([]byte{byte(i >> 8), byte(i)})))
	}
	if _, err := s.Acquire(t.Context(), many); !errors.Is(err, driver.ErrInvalidClaim) {
		t.Errorf("a set of 4001 claims: %v", err)
	}
	some := many
	some.Claims = many.Claims[:400]
	mustRelease(t, s, mustAcquire(t, s, some))
}

// TestReleaseSeesWhoCame: a process takes a free key, and another one joins the queue. A release that
// relied on what the process knew would leave the key to its own next request. The waiter is cut off,
// so it can't help itself.
func TestReleaseSeesWhoCame(t *testing.T) {
	t.Parallel()
	server := zktest.Shared(t)
	root := newRoot()
	s := open(t, server.Addr(), root)
	network := servertest.NewProxy(t, server.Addr())
	mustRelease(t, s, mustAcquire(t, s, request("k", time.Minute)))
	g := mustAcquire(t, s, request("k", time.Minute))
	w := enqueue(t, open(t, network.Addr(), root), request("k", time.Minute))
	network.Blackhole()
	mustRelease(t, s, g)
	if _, err := s.Acquire(t.Context(), request("k", time.Minute)); !errors.Is(err, driver.ErrHeld) {
		t.Errorf("a request that comes after the waiter: %v", err)
	}
	network.Heal()
	w.granted(t, 10*time.Second)
}

// TestACL: what a store with credentials makes is for them alone. Another client's request is refused
// by the servers, which is no outage that may pass.
func TestACL(t *testing.T) {
	t.Parallel()
	addr := zktest.Shared(t).Addr()
	root := newRoot()
	mine := zkstore.WithAuth("digest", []byte("me:secret"))
	network := servertest.NewProxy(t, addr)
	s := open(t, network.Addr(), root, mine)
	g := mustAcquire(t, s, request("k", time.Minute))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err := zkstore.New(ctx, []string{addr}, silent, zkstore.WithRoot(root), zkstore.WithSession(session))
	var refused *driver.UnavailableError
	if !errors.As(err, &refused) || !refused.Refused {
		t.Errorf("without credentials: %v", err)
	}
	// The credentials are sent again on each connection.
	network.Cut()
	network.Heal()
	mustRelease(t, s, g)
	mustRelease(t, open(t, addr, root, mine), mustAcquire(t, s, request("k", time.Minute)))
}

func mustRelease(t testing.TB, s *zkstore.Store, g driver.Grant) {
	t.Helper()
	if err := s.Release(t.Context(), g); err != nil {
		t.Errorf("Release: %v", err)
	}
}
