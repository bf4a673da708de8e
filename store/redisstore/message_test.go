package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/store/redisstore"
)

// question is the number and the inbox in owner's place in line for "k".
func question(t testing.TB, server *redistest.Server, owner string) (number uint64, inbox string) {
	t.Helper()
	entry := strings.Split(server.Client().HGet(context.Background(), "{lock:k}:w", owner).Val(), " ")
	if len(entry) != 11 {
		t.Fatalf("%s is not in line: %q", owner, entry)
	}
	number, err := strconv.ParseUint(entry[7], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return number, entry[10]
}

// TestMessageIsTheGrant: in every mode the one message is all that a waiter needs,
// and what it says is so at the server.
func TestMessageIsTheGrant(t *testing.T) {
	t.Parallel()
	for _, claim := range []driver.Claim{driver.Exclusive("k"), driver.Shared("k"), driver.Permit("k", 2)} {
		t.Run(claim.Mode.String(), func(t *testing.T) {
			t.Parallel()
			server := database(t)
			a, b := open(t, server.Client(), noPolling), open(t, server.Client(), redisstore.WithWaiterLease(time.Minute))
			release(t, a, lock(t, a, "first", "k", time.Minute)) // has the server learn the scripts
			g := lock(t, a, "holder", "k", time.Hour)
			before := time.Now()
			w := wait(t, b, driver.Request{Owner: "w", Claims: []driver.Claim{claim}, TTL: time.Hour})
			asked := time.Now()
			release(t, a, g)
			next := w.granted(soon)
			if next.Token <= g.Token || next.TTL != time.Hour || next.Term != 30*time.Second || !next.Contended {
				t.Errorf("granted %+v after %+v", next, g)
			}
			if next.Since.Before(before) || next.Since.After(asked) {
				t.Errorf("counts from %v, asked between %v and %v", next.Since, before, asked)
			}
			if err := renew(t, b, next); err != nil {
				t.Errorf("Renew: %v", err)
			}
			if left := server.Client().PTTL(context.Background(), "lock:k").Val(); left < 59*time.Minute {
				t.Errorf("%v are left after the renewal", left)
			}
			release(t, b, next)
		})
	}
}

// TestMessageToAnEarlierQuestion is no grant: what was passed on then may have run
// out before the last question was put.
func TestMessageToAnEarlierQuestion(t *testing.T) {
	t.Parallel()
	server := database(t)
	ctx, admin := context.Background(), server.Client()
	s := open(t, server.Client(), noPolling)
	g := lock(t, s, "holder", "k", time.Minute)
	w := enqueue(t, s, "w", "k", time.Minute)
	var looked time.Time
	for _, text := range []string{"w %d 99 0", "w 0 99 0", "w %d99 99 0", "w", "w x 99 0", "w %d"} {
		number, inbox := question(t, server, "w")
		looked = time.Now()
		stale := strconv.FormatUint(number-1, 10)
		if err := admin.Publish(ctx, inbox, strings.Replace(text, "%d", stale, 1)).Err(); err != nil {
			t.Fatal(err)
		}
		eventually(t, soon, text+" has it look", func() bool {
			now, _ := question(t, server, "w")
			return now > number
		})
	}
	select {
	case <-w.done:
		t.Fatalf("granted %+v, %v", w.grant, w.err)
	default:
	}
	release(t, s, g)
	next := w.granted(soon)
	if next.Token <= g.Token {
		t.Errorf("token %d follows %d", next.Token, g.Token)
	}
	if next.Term == 0 || next.Since.Before(looked) {
		t.Errorf("granted %+v: the message to the last question is a grant, and counts from it", next)
	}
}

// TestMessageAfterALongWait may come when the claim time, which counts from the last
// question, is mostly over: then the waiter asks.
func TestMessageAfterALongWait(t *testing.T) {
	t.Parallel()
	const ttl = 120 * time.Millisecond // so is the claim time
	server := redistest.Start(t)
	s := open(t, server.Client(), noPolling)
	release(t, s, lock(t, s, "first", "k", time.Minute)) // has the server learn the scripts
	g := lock(t, s, "holder", "k", time.Minute)
	began := time.Now()
	w := enqueue(t, s, "w", "k", ttl)
	time.Sleep(time.Until(began.Add(ttl)))
	release(t, s, g)
	next := w.granted(soon)
	if next.Term != 0 || next.Since.Before(began.Add(ttl)) {
		t.Errorf("granted %+v", next)
	}
}

// TestToldAndKilled costs the others the claim time at most: nobody renews.
func TestToldAndKilled(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, server.Client())
	g := lock(t, s, "holder", "k", time.Minute)
	head := startProcess(t, server, "k", time.Hour)
	head.says("queued", startup)
	second := enqueue(t, s, "second", "k", time.Minute)
	pause(t, head) // it is there to be told
	released := time.Now()
	release(t, s, g)
	head.kill()
	const claim = redisstore.DefaultWaiterLease / 2
	second.granted(claim + 2*time.Second)
	if took := second.at.Sub(released); took < claim/2 {
		t.Errorf("the next was let in after %v: nobody was told before", took)
	}
}

// TestPassedLeaseIsRenewedSoon: then a crash costs the TTL, and a pause less than
// that nothing.
func TestPassedLeaseIsRenewedSoon(t *testing.T) {
	t.Parallel()
	server := database(t)
	here, there := engine(t, server), engine(t, server, core.WithTTL(time.Hour))
	first, err := here.Acquire(within(t, time.Second), "k")
	if err != nil {
		t.Fatal(err)
	}
	var next *core.Lease
	var all sync.WaitGroup
	all.Go(func() { next, err = there.Acquire(within(t, 5*time.Second), "k") })
	eventually(t, soon, "the other one waits", func() bool { return waiting(t, server, "k") == 1 })
	if err := first.Release(within(t, time.Second)); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, soon, "the lease has its TTL", func() bool {
		return server.Client().PTTL(context.Background(), "lock:k").Val() > 59*time.Minute && time.Until(next.Deadline()) > 50*time.Minute
	})
	if err := next.Release(within(t, time.Second)); err != nil {
		t.Error(err)
	}
}

// TestCancelRacesWithTheMessage: a caller that gives up at that moment either has the lease or
// has given it back. So the next one never waits for the claim time.
func TestCancelRacesWithTheMessage(t *testing.T) {
	t.Parallel()
	server := database(t)
	a, b := open(t, server.Client(), noPolling), open(t, server.Client(), noPolling)
	g := lock(t, a, "holder", "k", time.Minute)
	taken := 0
	for i := range 40 {
		hurried := enqueue(t, b, "hurried"+strconv.Itoa(i), "k", time.Minute)
		patient := enqueue(t, a, "patient"+strconv.Itoa(i), "k", time.Minute)
		var all sync.WaitGroup
		all.Go(func() { release(t, a, g) })
		all.Go(func() {
			time.Sleep(time.Duration(i) * 5 * time.Microsecond)
			hurried.cancel()
		})
		all.Wait()
		<-hurried.done
		switch {
		case hurried.err == nil:
			taken++
			release(t, b, hurried.grant)
		case !errors.Is(hurried.err, driver.ErrHeld):
			t.Fatal(hurried.err)
		}
		next := patient.granted(soon)
		if next.Token <= g.Token || hurried.err == nil && next.Token <= hurried.grant.Token {
			t.Fatalf("token %d follows %d and %d", next.Token, g.Token, hurried.grant.Token)
		}
		g = next
	}
	t.Logf("%d of 40 took it", taken)
}

// TestNoMessageWithoutMemory: nobody is told of a grant that came to nothing.
func TestNoMessageWithoutMemory(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, server.Client(), noPolling)
	lock(t, s, "holder", "k", time.Minute)
	w := enqueue(t, s, "w", "k", time.Minute)
	cli(t, server, "1", "DEL", "lock:k")
	set(t, server, "maxmemory", "1mb") // the server alone takes more
	before := server.Commands(t)["publish"]
	if _, err := s.Acquire(within(t, time.Second), request("other", "k", time.Minute)); !errors.Is(err, redisstore.ErrOutOfMemory) {
		t.Errorf("want ErrOutOfMemory, got %v", err)
	}
	if n := server.Commands(t)["publish"] - before; n != 0 {
		t.Errorf("%d messages", n)
	}
	set(t, server, "maxmemory", "0")
	held(t, s, driver.Exclusive("k")) // the next one who comes has it passed on
	w.granted(soon)
}

// TestNobodyListensInAnyMode: what can't be told of is nobody's.
func TestNobodyListensInAnyMode(t *testing.T) {
	t.Parallel()
	for _, claim := range []driver.Claim{driver.Exclusive("k"), driver.Shared("k"), driver.Permit("k", 2)} {
		t.Run(claim.Mode.String(), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			network := servertest.NewProxy(t, server.Addr())
			a, b := open(t, server.Client(), noPolling), open(t, throughProxy(server, network), noPolling)
			g := lock(t, a, "holder", "k", time.Minute)
			w := enqueueFor(t, b, "cut-off", claim)
			network.Cut()
			eventually(t, soon, "the server notices", func() bool { return subscribers(t, server) == 0 })
			release(t, a, g)
			if n := server.Client().Exists(context.Background(), "lock:k", "{lock:k}:h", "{lock:k}:i").Val(); n != 0 {
				t.Errorf("%d keys of a holder who could not be told", n)
			}
			network.Heal()
			w.granted(soon)
		})
	}
}

// TestMessageThatIsNoGrant: a record must be looked for, and a set may need more.
func TestMessageThatIsNoGrant(t *testing.T) {
	t.Parallel()
	server := database(t)
	s := open(t, server.Client(), noPolling)
	g := lock(t, s, "holder", "k", time.Minute)
	set := enqueueFor(t, s, "set", driver.Exclusive("k"), driver.Exclusive("l"))
	release(t, s, g)
	if g = set.granted(soon); g.Term != 0 {
		t.Errorf("a set: %+v", g)
	}
	once := make(chan driver.Grant)
	go func() {
		req := request("once", "k", time.Minute)
		req.Wait = true
		g, _, err := s.Begin(within(t, 10*time.Second), req)
		if err != nil {
			t.Error(err)
		}
		once <- g
	}()
	eventually(t, soon, "it is in line", func() bool { return waiting(t, server, "k") == 1 })
	release(t, s, g)
	if g := <-once; g.Term != 0 {
		t.Errorf("an execution: %+v", g)
	}
}

// TestPassedWithinAnEngine: a lock that goes from one owner of an engine to the next
// may go from hand to hand for longer than one that others want, or had.
func TestPassedWithinAnEngine(t *testing.T) {
	t.Parallel()
	server := database(t)
	s := open(t, server.Client())
	release(t, s, lock(t, s, "warm", "up", time.Minute))
	for i, c := range []struct {
		holder    string
		waiters   []string
		contended bool
	}{
		{"host/1/e/2", []string{"host/1/e/1"}, false},
		{"host/1/f/2", []string{"host/1/e/1"}, true},
		{"host/1/e/2", []string{"host/1/e/1", "host/1/f/1"}, true},
		{"host/1/e", []string{"host/1/e/1"}, true},
		{"a", []string{"b"}, true},
	} {
		key := fmt.Sprint("k", i)
		g := lock(t, s, c.holder, key, time.Minute)
		var line []*waiter
		for _, owner := range c.waiters {
			line = append(line, enqueue(t, s, owner, key, time.Minute))
		}
		release(t, s, g)
		if g = line[0].granted(soon); g.Term == 0 || g.Contended != c.contended {
			t.Errorf("from %s to %v: %+v", c.holder, c.waiters, g)
		}
		release(t, s, g)
		for _, w := range line[1:] {
			release(t, s, w.granted(soon))
		}
	}
}
