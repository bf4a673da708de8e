package redisstore_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/servertest"
)

// The network lost a request, and TCP sent it again after 0.2 s. Until then the client had given up
// its connection, had sent the request on another one, and the lease had come and gone. The copy
// took the key once more, for nobody: it stayed locked for its whole TTL of 30 s.
func TestALateCopyOfARequestKeepsNoKey(t *testing.T) {
	servertest.LongParallel(t)
	const late = 400 * time.Millisecond
	exclusive := []core.Claim{core.Exclusive("k")}
	type row struct {
		claims []core.Claim
		opts   []core.CallOption
	}
	checktest.Each(t, map[string]row{
		"exclusive": {exclusive, nil},
		"shared":    {[]core.Claim{core.Shared("k")}, nil},
		"set":       {[]core.Claim{core.Exclusive("k"), core.Exclusive("l")}, nil},
		"min hold":  {exclusive, []core.CallOption{core.WithMinHold(time.Second)}},
	}, func(t *testing.T, c row) {
		server, p := proxied(t, database(t))
		eng := engine(t, open(t, throughProxy(server, p, hasty)), core.WithTTL(30*time.Second))
		use := func() {
			l, err := eng.AcquireAll(bg, c.claims, c.opts...)
			must(t, err)
			must(t, l.Release(bg))
		}
		use() // connections and scripts are there from now on
		freeFor(t, server, late, soon)

		p.DelayNext(late)
		began := time.Now()
		use()
		if time.Since(began) > late {
			t.Skipf("the request was answered only after %v, with its copy", time.Since(began))
		}
		freeFor(t, server, 2*late, soon)
	})
}

// The same for a request that its caller has given up.
func TestALateCopyOfAnAbandonedRequestKeepsNoKey(t *testing.T) {
	servertest.LongParallel(t)
	const late = time.Second
	server, p := proxied(t, redistest.Start(t))
	s := open(t, throughProxy(server, p, hasty))
	lease(t, s, "warm", driver.Exclusive("warm"))
	p.Delay(late)
	err := checktest.ErrorOf(s.Acquire(within(t, 20*time.Millisecond), request("o", "k", 30*time.Second)))
	check(t, err != nil, "the request was answered")
	p.Delay(0)
	freeFor(t, server, 2*late, soon)
}

// freeFor waits until the key "k" has been free for d, and fails if that takes patience longer.
func freeFor(t *testing.T, server *redistest.Server, d, patience time.Duration) {
	t.Helper()
	client := server.Client()
	end := time.Now().Add(d + patience)
	for since := time.Now(); time.Since(since) < d; time.Sleep(5 * time.Millisecond) {
		left, err := client.PTTL(bg, "lock:k").Result()
		must(t, err)
		if left >= 0 {
			since = time.Now()
		}
		require(t, time.Now().Before(end), "the key is still locked, for %v more", left)
	}
}

// Answers were lost until a lease had ended for its holder, which released it in vain.
// A renewal had reached the server: nobody held the key, and it stayed locked for the
// rest of another TTL, in 8 of 8 tries 10 s after the network was back.
func TestALostLeaseThatWasRenewedIsReleased(t *testing.T) {
	servertest.LongParallel(t)
	const ttl = 9 * time.Second
	server, p, l := heldThrough(t, ttl)
	other := engine(t, open(t, server.Client()))

	p.CutReplies()
	<-l.Done()
	wantIs(t, "Release", l.Release(bg), core.ErrLeaseLost)
	client := server.Client()
	left := client.PTTL(bg, "lock:k").Val()
	if left < ttl/4 {
		t.Skipf("no renewal arrived: the lease has %v left", left)
	}
	p.Heal()
	began := time.Now()
	freeSoon(t, other, "k")
	took := time.Since(began)
	check(t, took <= left*2/3, "free %v after the network was back; the lease had %v left", took, left)
}

// An extension to a longer TTL arrived and its answer was lost, and so was the release.
// The engine gave the release up after the old TTL; the key stayed locked for 17 s more.
func TestAReleaseAfterAnUnansweredExtensionIsSentAgain(t *testing.T) {
	servertest.LongParallel(t)
	server, p, l := heldThrough(t, time.Second)
	other := engine(t, open(t, server.Client()))

	p.CutReplies()
	wantIs(t, "Extend", l.Extend(within(t, time.Second), time.Minute), core.ErrOutcomeUnknown)
	p.Blackhole()
	check(t, l.Release(bg) != nil, "Release was answered")
	time.Sleep(2 * time.Second) // longer than the old TTL
	if left := server.Client().PTTL(bg, "lock:k").Val(); left < 30*time.Second {
		t.Skipf("the extension did not arrive: the lease has %v left", left)
	}
	p.Heal()
	freeSoon(t, other, "k")
}

// heldThrough takes the key "k" through a network. The server knows the script of a renewal by then, which it would ask
// for in vain later.
func heldThrough(t *testing.T, ttl time.Duration) (*redistest.Server, *servertest.Proxy, *core.Lease) {
	t.Helper()
	server, network := proxied(t, redistest.Start(t))
	s := open(t, throughProxy(server, network, hasty))
	l := acquire(t, engine(t, s, core.WithTTL(ttl), core.WithReleaseTimeout(200*time.Millisecond)), "k")
	must(t, l.Extend(within(t, 5*time.Second), 0))
	return server, network, l
}

// hasty has the client notice a lost answer soon.
func hasty(o *redis.Options) { o.ReadTimeout, o.MaxRetries = 300*time.Millisecond, -1 }

// TestUndoneAfterALongOutage: a grant whose answer was lost is nobody's. It is undone
// also where the network takes longer to come back than anybody waits.
func TestUndoneAfterALongOutage(t *testing.T) {
	servertest.LongParallel(t)
	server := redistest.Start(t)
	s, network := lossy(t, server, refused)
	admin := server.Client()
	network.CutReplies()
	failed := checktest.Async(func() error {
		return checktest.ErrorOf(s.Acquire(within(t, 150*time.Millisecond), request("o", "k", longTTL)))
	})
	eventually(t, soon, "the server has granted it", func() bool { return admin.Exists(bg, "lock:k").Val() == 1 })
	network.Blackhole() // or it would be undone now
	wantIs(t, "Acquire", <-failed, driver.ErrUnavailable)
	time.Sleep(7 * time.Second)
	check(t, admin.Exists(bg, "lock:k").Val() == 1, "it was undone before the network was back: this tests nothing")
	network.Heal()
	eventually(t, soon, "the grant that nobody wants is undone", func() bool { return admin.Exists(bg, "lock:k").Val() == 0 })
}
