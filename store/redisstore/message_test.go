package redisstore_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/internal/storetest"
	"github.com/keyturn/keyturn/store/redisstore"
)

// entry has the fields of owner's place in line for "k": version expires claim mode permits since arrived number wanted
// notes inbox.
func entry(t testing.TB, server *redistest.Server, owner string) []string {
	t.Helper()
	fields := strings.Split(server.Client().HGet(bg, "{lock:k}:w", owner).Val(), " ")
	require(t, len(fields) == 11, "%s is not in line: %q", owner, fields)
	return fields
}

// question is the number and the inbox in owner's place in line for "k".
func question(t testing.TB, server *redistest.Server, owner string) (number uint64, inbox string) {
	t.Helper()
	fields := entry(t, server, owner)
	number, err := strconv.ParseUint(fields[7], 10, 64)
	must(t, err)
	return number, fields[10]
}

// modes are "k" in every mode.
var modes = map[string]driver.Claim{"exclusive": driver.Exclusive("k"), "shared": driver.Shared("k"), "permit": driver.Permit("k", 2)}

// TestMessageIsTheGrant: in every mode the one message is all that a waiter needs,
// and what it says is so at the server.
func TestMessageIsTheGrant(t *testing.T) {
	t.Parallel()
	checktest.Each(t, modes, func(t *testing.T, claim driver.Claim) {
		server := redistest.Start(t)
		a, b := open(t, server.Client(), noPolling), open(t, server.Client(), redisstore.WithWaiterLease(time.Minute))
		release(t, a, lock(t, a, "first", "k", time.Minute)) // has the server learn the scripts
		g := lock(t, a, "holder", "k", time.Hour)
		before := time.Now()
		w := storetest.Enqueue(t, b, driver.Request{Owner: "w", Claims: []driver.Claim{claim}, TTL: time.Hour})
		asked, was := time.Now(), server.Commands(t)
		release(t, a, g)
		next := w.GrantedIn(soon)
		is := server.Commands(t)
		wantEqual(t, "requests", is["evalsha"]+is["eval"]-was["evalsha"]-was["eval"], 1)
		check(t, is["publish"]-was["publish"] <= 2, "%d messages", is["publish"]-was["publish"]) // one may be somebody's to itself
		good := next.Token > g.Token && next.TTL == time.Hour && next.Term == 30*time.Second && next.Contended
		check(t, good, "granted %+v after %+v", next, g)
		check(t, !next.Since.Before(before) && !next.Since.After(asked), "counts from %v, asked between %v and %v", next.Since, before, asked)
		must(t, renew(t, b, next))
		left := server.Client().PTTL(bg, "lock:k").Val()
		check(t, left >= 59*time.Minute, "%v are left after the renewal", left)
		release(t, b, next)
	})
}

// TestMessageToAnEarlierQuestion is no grant: what was passed on then may have run
// out before the last question was put.
func TestMessageToAnEarlierQuestion(t *testing.T) {
	server, s := onDatabase(t, noPolling)
	admin := server.Client()
	g := lock(t, s, "holder", "k", time.Minute)
	w := enqueue(t, s, "w", "k", time.Minute)
	var looked time.Time
	for _, text := range []string{"w %d 99 0", "w 0 99 0", "w %d99 99 0", "w", "w x 99 0", "w %d"} {
		number, inbox := question(t, server, "w")
		looked = time.Now()
		stale := strconv.FormatUint(number-1, 10)
		must(t, admin.Publish(bg, inbox, strings.Replace(text, "%d", stale, 1)).Err())
		eventually(t, soon, text+" has it look", func() bool {
			now, _ := question(t, server, "w")
			return now > number
		})
	}
	check(t, !w.IsAnswered(), "granted by a message to an earlier question")
	release(t, s, g)
	next := w.GrantedIn(soon)
	check(t, next.Token > g.Token, "token %d follows %d", next.Token, g.Token)
	check(t, next.Term > 0 && !next.Since.Before(looked), "granted %+v, not by the message to the last question", next)
}

// TestMessageAfterALongWait may come when the claim time, which counts from the last question, is mostly over: then the
// waiter asks. It has not asked before.
func TestMessageAfterALongWait(t *testing.T) {
	t.Parallel()
	const ttl = 120 * time.Millisecond // so is the claim time
	_, s := storeOn(t, redistest.Start(t), noPolling)
	release(t, s, lock(t, s, "first", "k", time.Minute)) // has the server learn the scripts
	g := lock(t, s, "holder", "k", time.Minute)
	w := enqueue(t, s, "w", "k", ttl)
	began := time.Now() // not before its question, which takes a while on a busy machine
	time.Sleep(time.Until(began.Add(ttl)))
	release(t, s, g)
	next := w.GrantedIn(soon)
	check(t, next.Term == 0 && !next.Since.Before(began.Add(ttl)), "granted %+v", next)
}

// TestToldAndKilled costs the others the claim time at most: nobody renews.
func TestToldAndKilled(t *testing.T) {
	servertest.LongParallel(t)
	server, s := storeOn(t, redistest.Start(t))
	g := lock(t, s, "holder", "k", time.Minute)
	head := startProcess(t, server, "k", time.Hour, "queued")
	second := enqueue(t, s, "second", "k", time.Minute)
	pause(t, head) // it is there to be told
	released := time.Now()
	release(t, s, g)
	head.kill()
	const claim = redisstore.DefaultWaiterLease / 2
	second.GrantedIn(claim + 2*time.Second)
	took := time.Since(released)
	check(t, took >= claim/2, "the next was let in after %v: nobody was told before", took)
}

// TestCancelRacesWithTheMessage: a caller that gives up at that moment either has the lease or has given it back. So the
// next one never waits for the claim time.
func TestCancelRacesWithTheMessage(t *testing.T) {
	server, a := onDatabase(t, noPolling)
	b := open(t, server.Client(), noPolling)
	g := lock(t, a, "holder", "k", time.Minute)
	for i := range 40 {
		hurried := enqueue(t, b, fmt.Sprint("hurried", i), "k", time.Minute)
		patient := enqueue(t, a, fmt.Sprint("patient", i), "k", time.Minute)
		var all sync.WaitGroup
		all.Go(func() { release(t, a, g) })
		all.Go(func() {
			time.Sleep(time.Duration(i) * 5 * time.Microsecond)
			hurried.Cancel()
		})
		all.Wait()
		had, err := hurried.Answer()
		if err == nil {
			release(t, b, had)
		}
		require(t, err == nil || errors.Is(err, driver.ErrHeld), "%v", err)
		next := patient.GrantedIn(soon)
		check(t, next.Token > max(g.Token, had.Token), "token %d follows %d and %d", next.Token, g.Token, had.Token)
		g = next
	}
}

// TestNoMessageWithoutMemory: nobody is told of a grant that came to nothing.
func TestNoMessageWithoutMemory(t *testing.T) {
	server, s := onServer(t, noPolling)
	lock(t, s, "holder", "k", time.Minute)
	w := enqueue(t, s, "w", "k", time.Minute)
	cli(t, server, "1", "DEL", "lock:k")
	set(t, server, "maxmemory", "1mb") // the server alone takes more
	before := server.Commands(t)["publish"]
	_, err := s.Acquire(within(t, time.Second), request("other", "k", time.Minute))
	wantIs(t, "Acquire", err, redisstore.ErrOutOfMemory)
	wantEqual(t, "messages", server.Commands(t)["publish"]-before, 0)
	set(t, server, "maxmemory", "0")
	// The next one finds it free, although nobody told those in line, and leaves it to the first of them.
	wantEqual(t, "the holder", held(t, s, driver.Exclusive("k")).Holder, "w")
	w.GrantedIn(soon)
}

// TestNobodyListensInAnyMode: what can't be told of is nobody's.
func TestNobodyListensInAnyMode(t *testing.T) {
	t.Parallel()
	checktest.Each(t, modes, func(t *testing.T, claim driver.Claim) {
		server, network := proxied(t, redistest.Start(t))
		a, b := open(t, server.Client(), noPolling), open(t, throughProxy(server, network), noPolling)
		g := lock(t, a, "holder", "k", time.Minute)
		w := enqueueFor(t, b, "cut-off", claim)
		network.Cut()
		eventually(t, soon, "the server notices", func() bool { return subscribers(t, server) == 0 })
		release(t, a, g)
		n := server.Client().Exists(bg, "lock:k", "{lock:k}:h", "{lock:k}:i").Val()
		check(t, n == 0, "%d keys of a holder who could not be told", n)
		network.Heal()
		w.GrantedIn(soon)
	})
}

// TestPassedWithinAnEngine: a lock that goes from one owner of an engine to the next
// may go from hand to hand for longer than one that others want, or had.
func TestPassedWithinAnEngine(t *testing.T) {
	_, s := onDatabase(t)
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
		var line []*storetest.Waiting
		for _, owner := range c.waiters {
			line = append(line, enqueue(t, s, owner, key, time.Minute))
		}
		release(t, s, g)
		g = line[0].GrantedIn(soon)
		check(t, g.Term > 0 && g.Contended == c.contended, "from %s to %v: %+v", c.holder, c.waiters, g)
		release(t, s, g)
		for _, w := range line[1:] {
			release(t, s, w.GrantedIn(soon))
		}
	}
}
