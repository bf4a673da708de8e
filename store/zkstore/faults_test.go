package zkstore_test

import (
	"encoding/hex"
	"path"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/internal/storetest"
	"github.com/keyturn/keyturn/internal/zktest"
	"github.com/keyturn/keyturn/store/zkstore"
)

// TestLostReplies loses the answer to the request that grants, or joins the queue, and then the
// answer to the first look on the next connection. The owner is served once, and no node of it is
// left (samuel/go-zookeeper#237, apache/curator#835).
func TestLostReplies(t *testing.T) {
	t.Parallel()
	z := newScene(t)
	network := zktest.NewRelay(t, z.addr)
	other, s := z.open(t), z.openAt(t, network.Addr)
	storetest.Use(t, s, "free")
	held := hold(t, other, request("held", time.Minute))
	for key, prefix := range map[string]string{"free": "h-", "held": "w-"} {
		req := request(key, time.Minute)
		lost := network.LoseAnswerTo(zktest.OpMulti)
		w := storetest.Start(t, s, req)
		<-lost
		eventually(t, "the request was carried out", func() bool { return len(z.nodes(t, key, prefix)) > 0 })
		lost = network.LoseAnswerTo(zktest.OpList)
		network.Cut(true)
		<-lost
		network.Cut(true) // the connection works again
		if key == "held" {
			w.Waits()
			places := z.nodes(t, key, "w-")
			check(t, len(places) == 1, "the places of one waiter: %v", places)
			release(t, other, held)
		}
		g := w.Granted()
		holders := z.nodes(t, key, "")
		check(t, len(holders) == 1 && holders[0] == "h-"+nodeOf(req.Owner), "the nodes of one lease: %v", holders)
		release(t, s, g)
		left := z.nodes(t, key, "")
		check(t, len(left) == 0, "left behind: %v", left)
	}
}

// TestLostReleaseReply: a release without an answer may be repeated, and frees the key (apache/curator#1193).
func TestLostReleaseReply(t *testing.T) {
	t.Parallel()
	z := newScene(t)
	network := zktest.NewRelay(t, z.addr)
	s := z.openAt(t, network.Addr)
	g := hold(t, s, request("k", time.Minute))
	lost := network.LoseAnswerTo(zktest.OpMulti)
	released := checktest.Async(func() error { return s.Release(t.Context(), g) })
	<-lost
	eventually(t, "the release was carried out", func() bool { return len(z.nodes(t, "k", "")) == 0 })
	network.Cut(true)
	must(t, <-released)
	storetest.Use(t, s, "k")
}

// TestSessionExpires: a process without a network for longer than its session lasts. Its waiter loses
// its place and waits on. Its lease stays, and nobody else gets it (apache/curator#727, #1121).
func TestSessionExpires(t *testing.T) {
	t.Parallel()
	z := newScene(t)
	network := servertest.NewProxy(t, z.addr)
	other, s := z.open(t), z.openAt(t, network.Addr())
	mine := hold(t, s, request("mine", time.Minute))
	held := hold(t, other, request("held", time.Minute))
	first := enqueue(t, s, request("held", time.Minute))
	second := enqueue(t, other, request("held", time.Minute))

	network.Blackhole()
	eventually(t, "the waiter has lost its place", func() bool { return len(z.nodes(t, "held", "w-")) == 1 })
	network.Heal()
	eventually(t, "the waiter has a place again", func() bool { return len(z.nodes(t, "held", "w-")) == 2 })

	release(t, other, held)
	release(t, other, second.Granted())
	release(t, s, first.Granted())
	storetest.IsHeld(t, other, request("mine", time.Minute))
	must(t, s.Renew(t.Context(), []driver.Grant{mine})[0])
	release(t, s, mine)
}

// TestNodeOfAnotherSession: a waiter finds a node of its own name that ends with another session. It
// must not take it for its place (apache/curator#1018).
func TestNodeOfAnotherSession(t *testing.T) {
	t.Parallel()
	z := newScene(t)
	s := z.open(t)
	held := hold(t, s, request("k", time.Minute))
	req := request("k", time.Minute)
	node, err := z.Create(z.lock("k")+"/w-"+nodeOf(req.Owner)+"-x-", []byte(`{"owner":"`+req.Owner+`","ttl":60000000}`), zk.FlagEphemeralSequential, zk.WorldACL(zk.PermAll))
	must(t, err)
	w := enqueue(t, s, req)
	places := z.nodes(t, "k", "w-")
	check(t, len(places) == 1 && places[0] != path.Base(node), "the waiter's places are %v, and %s is another session's", places, path.Base(node))
	z.Close()
	w.Waits()
	release(t, s, held)
	release(t, s, w.Granted())
}

// TestSilentServer: a server that accepts connections and says nothing does not cost the session, so
// waiters keep their places. The client alone would wait for it for longer than the session lasts.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	z := newScene(t)
	silent, network := servertest.NewProxy(t, z.addr), servertest.NewProxy(t, z.addr)
	silent.Blackhole()
	other := z.open(t)
	held := hold(t, other, request("k", time.Minute))
	s := openAll(t, []string{silent.Addr(), network.Addr()}, z.root, zkstore.WithSession(session))
	w := enqueue(t, s, request("k", time.Minute))
	before := z.nodes(t, "k", "w-")
	network.Cut()
	network.Heal()
	storetest.Use(t, s, "mine") // once the session is back
	after := z.nodes(t, "k", "w-")
	check(t, len(after) == 1 && slices.Equal(before, after), "the places are %v, and were %v", after, before)
	release(t, other, held)
	release(t, s, w.Granted())
}

// TestTooLarge: what is more than a server accepts at once is never sent, because the server would
// close the connection.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	s := newScene(t).open(t)
	g, _, err := s.Begin(t.Context(), request("once", time.Minute))
	must(t, err)
	result := driver.Record{Result: make([]byte, 2<<20), Fingerprint: []byte("f"), Trace: "t"}
	for range 2 {
		wantIs(t, "a result of 2 MiB", s.Complete(t.Context(), g, result, time.Minute), driver.ErrResultNotKept)
	}
	_, rec, err := s.Begin(t.Context(), request("once", time.Minute))
	check(t, err == nil && rec != nil && rec.ResultNotKept && rec.Trace == "t" && string(rec.Fingerprint) == "f", "its record is %+v, %v", rec, err)

	many := request("a", time.Minute)
	for i := range 4000 {
		many.Claims = append(many.Claims, driver.Exclusive("b"+hex.EncodeToString([]byte{byte(i >> 8), byte(i)})))
	}
	wantIs(t, "a set of 4001 claims", checktest.ErrorOf(s.Acquire(t.Context(), many)), driver.ErrInvalidClaim)
	many.Claims = many.Claims[:400]
	release(t, s, hold(t, s, many))
}

// TestReleaseSeesWhoCame: a process takes a free key, and another one joins the queue. A release that relied on what
// the process knew would leave the key to its own next request. The waiter is cut off, so it can't help itself.
func TestReleaseSeesWhoCame(t *testing.T) {
	t.Parallel()
	z := newScene(t)
	network := servertest.NewProxy(t, z.addr)
	s := z.open(t)
	storetest.Use(t, s, "k")
	g := hold(t, s, request("k", time.Minute))
	w := enqueue(t, z.openAt(t, network.Addr()), request("k", time.Minute))
	network.Blackhole()
	release(t, s, g)
	storetest.IsHeld(t, s, request("k", time.Minute)) // it comes after the waiter
	network.Heal()
	w.Granted()
}
