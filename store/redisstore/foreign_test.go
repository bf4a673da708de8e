package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/drivertest"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/internal/storetest"
	"github.com/keyturn/keyturn/store/redisstore"
)

// compareAndDelete is how clients of any make release.
const compareAndDelete = `if redis.call("GET",KEYS[1]) == ARGV[1] then return redis.call("DEL",KEYS[1]) else return 0 end`

const uuid = "9f2c1c1e-5d0a-4c53-9d83-3a6f0b7f2f11"

func cli(t testing.TB, server *redistest.Server, want string, args ...string) {
	t.Helper()
	got, err := server.CLI(args...)
	must(t, err)
	check(t, got == want, "redis-cli %q: %q, want %q", args, got, want)
}

// notOurs checks that owner can neither release nor renew "k".
func notOurs(t *testing.T, s *redisstore.Store, owner string) {
	t.Helper()
	g := driver.Grant{Owner: owner, Claims: []driver.Claim{driver.Exclusive("k")}, TTL: time.Hour}
	wantIs(t, "Release by "+owner, s.Release(within(t, time.Second), g), driver.ErrLeaseLost)
	wantIs(t, "Renew by "+owner, renew(t, s, g), driver.ErrLeaseLost)
}

// TestForeignClients has redis-cli do what a C++ or Java client of the same fleet does.
func TestForeignClients(t *testing.T) {
	server, s := onDatabase(t, redisstore.WithWaiterLease(300*time.Millisecond))

	// They have it, we don't.
	cli(t, server, "OK", "SET", "lock:k", uuid, "NX", "PX", "60000")
	wantEqual(t, "the holder", held(t, s, driver.Exclusive("k")).Holder, uuid)
	// Nor can we release or renew theirs, whatever we call ourselves.
	notOurs(t, s, "o")
	notOurs(t, s, uuid)
	w := enqueue(t, s, "w", "k", time.Minute)
	cli(t, server, "1", "EVAL", compareAndDelete, "1", "lock:k", uuid)
	g := w.GrantedIn(soon)

	// We have it, they don't.
	cli(t, server, "", "SET", "lock:k", uuid, "NX", "PX", "60000")
	cli(t, server, "0", "EVAL", compareAndDelete, "1", "lock:k", uuid)
	release(t, s, g)
	cli(t, server, "OK", "SET", "lock:k", uuid, "NX", "PX", "500")
	enqueue(t, s, "w2", "k", time.Minute).GrantedIn(soon) // when theirs has run out
}

// TestForeignLockWithoutExpiry is waited for, and left as it is.
func TestForeignLockWithoutExpiry(t *testing.T) {
	server, s := onServer(t, redisstore.WithWaiterLease(150*time.Millisecond))
	cli(t, server, "OK", "SET", "lock:k", uuid)
	w := enqueue(t, s, "w", "k", time.Minute)
	before := calls(t, server)
	eventually(t, soon, "the waiter looks now and then", func() bool { return calls(t, server) >= before+3 })
	wantEqual(t, "one waiter that looked several times, in line", waiting(t, server, "k"), 1)
	e := held(t, s, driver.Exclusive("k"))
	check(t, e.RetryAfter == 0 && e.HeldFor == 0, "want a holder of whom no end is known, got %+v", e)
	patient, cancel := context.WithTimeout(bg, 400*time.Millisecond)
	defer cancel()
	_, err := s.Acquire(patient, driver.Request{Owner: "w2", Claims: []driver.Claim{driver.Exclusive("k")}, TTL: time.Minute, Wait: true})
	var same *driver.HeldError
	check(t, errors.As(err, &same) && same.HeldFor > 0, "one that has seen it for a while got %+v", err)
	cli(t, server, "-1", "PTTL", "lock:k")
	cli(t, server, uuid, "GET", "lock:k")
	cli(t, server, "1", "DEL", "lock:k")
	w.GrantedIn(soon)
}

// TestForeignClientsThatHaveGone: the lock is left free for them some times more, and then goes from waiter
// to waiter again. What was counted about them goes, too.
func TestForeignClientsThatHaveGone(t *testing.T) {
	server, s := onDatabase(t)
	admin := server.Client()
	counted := func() bool { return admin.HExists(bg, "{lock:k}:w", ":foreign").Val() }
	for _, mode := range []driver.Claim{driver.Exclusive("k"), driver.Permit("k", 1)} {
		admin.Set(bg, "lock:k", uuid, time.Minute)
		waits := func(i int) *storetest.Waiting { return enqueueFor(t, s, fmt.Sprintf("%v%d", mode.Mode, i), mode) }
		w := waits(0)
		eventually(t, soon, "the waiter has seen the foreign client", counted)
		left := admin.PTTL(bg, "{lock:k}:w").Val()
		check(t, left > 0, "what was counted stays for %v", left)
		admin.Del(bg, "lock:k")
		turns := 0
		for began := time.Now(); counted() && time.Since(began) < soon; turns++ {
			g := w.GrantedIn(soon)
			w = waits(turns + 1)
			release(t, s, g)
		}
		check(t, turns >= 2 && !counted(), "%v: foreign clients counted for %d turns", mode, turns)
		release(t, s, w.GrantedIn(soon))
		nothingLeft(t, server)
	}
}

// TestLeftFreeForForeignClients: nobody in line gets the lock meanwhile. The next one does afterwards, also if the
// first, who was told to ask then, gives up.
func TestLeftFreeForForeignClients(t *testing.T) {
	server, s := onDatabase(t, noPolling)
	admin := server.Client()
	lock(t, s, "holder", "another", time.Minute)
	enqueue(t, s, "w", "another", time.Minute) // from now on, the process knows its inbox

	left := time.Now().Add(500 * time.Millisecond).Truncate(time.Millisecond)
	admin.HSet(bg, "{lock:k}:w", ":foreign", fmt.Sprint("0 ", left.UnixMilli(), " 0 0 0"))
	admin.PExpire(bg, "{lock:k}:w", time.Minute)
	first := enqueue(t, s, "first", "k", time.Minute)
	second := enqueue(t, s, "second", "k", time.Minute)
	require(t, admin.Exists(bg, "lock:k").Val() == 0, "the lock is not left free")
	e := held(t, s, driver.Exclusive("k"))
	check(t, e.RetryAfter <= time.Second, "a request that does not wait: %v", e)
	first.Cancel()
	g := second.GrantedIn(soon)
	check(t, time.Now().After(left), "the lock was not left free until then")
	release(t, s, g)
}

// TestLongForeignLock: one that is held for long costs few looks.
func TestLongForeignLock(t *testing.T) {
	servertest.LongParallel(t)
	server, s := storeOn(t, redistest.Start(t))
	cli(t, server, "OK", "SET", "lock:k", uuid)
	w := enqueue(t, s, "w", "k", time.Minute)
	behind := enqueue(t, s, "behind", "k", time.Minute)
	time.Sleep(4 * time.Second)
	before := calls(t, server)
	time.Sleep(time.Second)
	n := calls(t, server) - before // held for 4 s, so a look each 16 ms or so
	check(t, n <= 90, "%d looks within a second at a lock that has been held for four", n)
	cli(t, server, "1", "DEL", "lock:k")
	release(t, s, w.GrantedIn(soon))
	behind.GrantedIn(soon)
}

func TestWrongType(t *testing.T) {
	server, s := onDatabase(t)
	cli(t, server, "1", "HSET", "lock:k", "field", "value")
	for _, wait := range []bool{false, true} {
		req := request("o", "k", time.Minute)
		req.Wait = wait
		_, err := s.Acquire(within(t, time.Second), req)
		storetest.IsForeign(t, err)
		wantIs(t, "the error", err, redisstore.ErrWrongType)
	}
	notOurs(t, s, "o") // where a lease was before, it is lost
	wantEqual(t, "fields of what somebody else keeps there", server.Client().HLen(bg, "lock:k").Val(), 1)
}

// A foreign value of a megabyte went as a whole into each conflict, each list and each log.
func TestALongForeignValueIsShortened(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 1<<19)
	pretends := "h/1/1/abc/id:1763683200000001:0:1763683200000:30000:" + long
	for name, value := range map[string]string{"text": long, "pretends": pretends, "rule": pretends[:4000]} {
		server, s := storeOn(t, database(t))
		put := func(value string) { must(t, server.Client().Set(bg, "lock:k", value, time.Minute).Err()) }
		put(value)
		seen := inspect(t, s, "k").Holders[0]
		check(t, utf8.ValidString(seen.Owner), "%s: cut within a character: %q", name, seen.Owner)
		if name == "text" { // the shortened owner names this value, and no other that begins alike
			put(value + "2")
			wantIs(t, "another client has it by now", checktest.ErrorOf(s.ForceRelease(bg, "k", "test", seen)), driver.ErrHeld)
			put(value)
		}
		drivertest.Shortened(t, s, "k")
		check(t, inspect(t, s, "k").IsFree(), "%s: still held", name)
	}
}
