package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/store/redisstore"
)

// compareAndDelete is how clients of any make release.
const compareAndDelete = `if redis.call("GET",KEYS[1]) == ARGV[1] then return redis.call("DEL",KEYS[1]) else return 0 end`

const uuid = "9f2c1c1e-5d0a-4c53-9d83-3a6f0b7f2f11"

func cli(t testing.TB, server *redistest.Server, want string, args ...string) {
	t.Helper()
	got, err := server.CLI(args...)
	if err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Errorf("redis-cli %q: %q, want %q", args, got, want)
	}
}

// TestForeignClients has redis-cli do what a C++ or Java client of the same
// fleet does.
func TestForeignClients(t *testing.T) {
	t.Parallel()
	server := database(t)
	s := open(t, server.Client(), redisstore.WithWaiterLease(300*time.Millisecond))

	// They have it, we don't.
	cli(t, server, "OK", "SET", "lock:k", uuid, "NX", "PX", "60000")
	_, err := s.Acquire(within(t, time.Second), request("o", "k", time.Minute))
	var held *driver.HeldError
	if !errors.As(err, &held) || held.Holder != uuid {
		t.Fatalf("want the foreign client as the holder, got %v", err)
	}
	// Nor can we release or renew theirs, whatever we call ourselves.
	for _, owner := range []string{"o", uuid} {
		g := driver.Grant{Owner: owner, Claims: []driver.Claim{driver.Exclusive("k")}, TTL: time.Hour}
		if err := s.Release(within(t, time.Second), g); !errors.Is(err, driver.ErrLeaseLost) {
			t.Errorf("release of a foreign lock by %q: %v", owner, err)
		}
		if err := renew(t, s, g); !errors.Is(err, driver.ErrLeaseLost) {
			t.Errorf("renewal of a foreign lock by %q: %v", owner, err)
		}
	}
	w := enqueue(t, s, "w", "k", time.Minute)
	cli(t, server, "1", "EVAL", compareAndDelete, "1", "lock:k", uuid)
	g := w.granted(soon)

	// We have it, they don't.
	cli(t, server, "", "SET", "lock:k", uuid, "NX", "PX", "60000")
	cli(t, server, "0", "EVAL", compareAndDelete, "1", "lock:k", uuid)
	release(t, s, g)
	cli(t, server, "OK", "SET", "lock:k", uuid, "NX", "PX", "500")
	w = enqueue(t, s, "w2", "k", time.Minute) // until theirs runs out
	w.granted(soon)
}

// TestForeignLockWithoutExpiry is waited for, and left as it is.
func TestForeignLockWithoutExpiry(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, server.Client(), redisstore.WithWaiterLease(150*time.Millisecond))
	cli(t, server, "OK", "SET", "lock:k", uuid)
	w := enqueue(t, s, "w", "k", time.Minute)
	before := calls(t, server)
	eventually(t, soon, "the waiter looks now and then", func() bool { return calls(t, server) >= before+3 })
	if n := waiting(t, server, "k"); n != 1 {
		t.Errorf("one waiter that looked several times is %d in line", n)
	}
	cli(t, server, "-1", "PTTL", "lock:k")
	cli(t, server, uuid, "GET", "lock:k")
	_, err := s.Acquire(within(t, time.Second), request("o", "k", time.Minute))
	var held *driver.HeldError
	if !errors.As(err, &held) || held.RetryAfter != 0 || held.HeldFor != 0 {
		t.Errorf("want a holder of whom no end is known, got %+v", err)
	}
	cli(t, server, "-1", "PTTL", "lock:k")
	cli(t, server, "1", "DEL", "lock:k")
	w.granted(soon)
}

// TestForeignClientsThatHaveGone: the lock is left free for them some times more, and then goes from waiter
// to waiter again. What was counted about them goes, too.
func TestForeignClientsThatHaveGone(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	server := database(t)
	s := open(t, server.Client())
	admin := server.Client()
	for _, mode := range []driver.Claim{driver.Exclusive("k"), driver.Permit("k", 1)} {
		admin.Set(ctx, "lock:k", uuid, time.Minute)
		waits := func(i int) *waiter {
			return wait(t, s, driver.Request{Owner: fmt.Sprintf("%v%d", mode.Mode, i), Claims: []driver.Claim{mode}, TTL: time.Minute})
		}
		w := waits(0)
		eventually(t, soon, "the waiter has seen the foreign client", func() bool { return admin.HExists(ctx, "{lock:k}:w", ":foreign").Val() })
		if left := admin.PTTL(ctx, "{lock:k}:w").Val(); left <= 0 {
			t.Errorf("what was counted stays for %v", left)
		}
		admin.Del(ctx, "lock:k")
		turns, counted := 0, func() bool { return admin.HExists(ctx, "{lock:k}:w", ":foreign").Val() }
		for began := time.Now(); counted() && time.Since(began) < soon; turns++ {
			g := w.granted(soon)
			w = waits(turns + 1)
			release(t, s, g)
		}
		if turns < 2 || counted() {
			t.Errorf("%v: foreign clients counted for %d turns", mode, turns)
		}
		release(t, s, w.granted(soon))
		if left := keysLeft(t, server); len(left) > 0 {
			t.Errorf("%v: left behind: %v", mode, left)
		}
	}
}

// TestLeftFreeForForeignClients: nobody in line gets the lock meanwhile. The next one does afterwards, also if the
// first, who was told to ask then, gives up.
func TestLeftFreeForForeignClients(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	server := database(t)
	s := open(t, server.Client(), noPolling)
	admin := server.Client()
	lock(t, s, "holder", "another", time.Minute)
	enqueue(t, s, "w", "another", time.Minute) // from now on, the process knows its inbox

	left := time.Now().Add(500 * time.Millisecond).Truncate(time.Millisecond)
	admin.HSet(ctx, "{lock:k}:w", ":foreign", fmt.Sprint("0 ", left.UnixMilli(), " 0 0 0"))
	admin.PExpire(ctx, "{lock:k}:w", time.Minute)
	first := enqueue(t, s, "first", "k", time.Minute)
	second := enqueue(t, s, "second", "k", time.Minute)
	if n := admin.Exists(ctx, "lock:k").Val(); n != 0 {
		t.Fatal("the lock is not left free")
	}
	var held *driver.HeldError
	if _, err := s.Acquire(within(t, time.Second), request("o", "k", time.Minute)); !errors.As(err, &held) || held.RetryAfter > time.Second {
		t.Errorf("a request that does not wait: %v", err)
	}
	first.cancel()
	g := second.granted(soon)
	if time.Now().Before(left) {
		t.Error("the lock was not left free until then")
	}
	release(t, s, g)
}

// TestLongForeignLock: one that is held for long costs few looks.
func TestLongForeignLock(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, server.Client())
	cli(t, server, "OK", "SET", "lock:k", uuid)
	w := enqueue(t, s, "w", "k", time.Minute)
	behind := enqueue(t, s, "behind", "k", time.Minute)
	time.Sleep(4 * time.Second)
	before := calls(t, server)
	time.Sleep(time.Second)
	// Held for 4 s, so a look each 16 ms or so.
	if n := calls(t, server) - before; n > 90 {
		t.Errorf("%d looks within a second at a lock that has been held for four", n)
	}
	cli(t, server, "1", "DEL", "lock:k")
	release(t, s, w.granted(soon))
	behind.granted(soon)
}

func TestWrongType(t *testing.T) {
	t.Parallel()
	server := database(t)
	s := open(t, server.Client())
	cli(t, server, "1", "HSET", "lock:k", "field", "value")
	for _, wait := range []bool{false, true} {
		req := request("o", "k", time.Minute)
		req.Wait = wait
		_, err := s.Acquire(within(t, time.Second), req)
		if !errors.Is(err, redisstore.ErrWrongType) {
			t.Errorf("want ErrWrongType, got %v", err)
		}
		if errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrHeld) {
			t.Errorf("neither outage nor contention: %v", err)
		}
	}
	// Where a lease was before, it is lost.
	g := driver.Grant{Owner: "o", Claims: []driver.Claim{driver.Exclusive("k")}, TTL: time.Minute}
	if err := s.Release(within(t, time.Second), g); !errors.Is(err, driver.ErrLeaseLost) {
		t.Errorf("Release: want ErrLeaseLost, got %v", err)
	}
	if err := renew(t, s, g); !errors.Is(err, driver.ErrLeaseLost) {
		t.Errorf("Renew: want ErrLeaseLost, got %v", err)
	}
	if n := server.Client().HLen(context.Background(), "lock:k").Val(); n != 1 {
		t.Error("what somebody else keeps there was changed")
	}
}

// A foreign value of a megabyte went as a whole into each conflict, each list and each log.
func TestALongForeignValueIsShortened(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	server := database(t)
	s := open(t, server.Client())
	long := strings.Repeat("é", 1<<19)
	pretends := "h/1/1/abc/id:1763683200000001:0:1763683200000:30000:" + long
	for name, value := range map[string]string{"text": long, "pretends": pretends, "rule": pretends[:4000]} {
		server.Client().Set(ctx, "lock:"+name, value, time.Minute)
		info := inspect(t, s, name)
		if len(info.Holders) != 1 {
			t.Fatalf("%s: %+v", name, info)
		}
		h := info.Holders[0]
		if len(h.Owner) > driver.MaxOwnerBytes || len(h.Rule) > driver.MaxNoteBytes || strings.ContainsRune(strings.ToValidUTF8(h.Owner, "\ufffd"), '\ufffd') {
			t.Errorf("%s: an owner of %d bytes, a rule of %d: %.300q", name, len(h.Owner), len(h.Rule), h.Owner)
		}
		_, err := s.Acquire(within(t, time.Second), request("o", name, time.Minute))
		var held *driver.HeldError
		if !errors.As(err, &held) || held.Holder != h.Owner {
			t.Errorf("%s: the conflict names another holder: %.300q", name, held.Holder)
		}
	}
	if page, _, err := s.List(ctx, driver.Listing{Limit: 100, Records: true}); err != nil || len(page) != 3 || len(page[0].Holders[0].Owner) > driver.MaxOwnerBytes {
		t.Errorf("%.300v, %v", page, err)
	}

	// The shortened owner names this value, and no other that begins alike.
	seen := inspect(t, s, "text").Holders[0]
	server.Client().Set(ctx, "lock:text", long+"2", time.Minute)
	if _, err := s.ForceRelease(ctx, "text", "test", seen); !errors.Is(err, driver.ErrHeld) {
		t.Errorf("another client has it by now: %v", err)
	}
	for _, name := range []string{"text", "pretends", "rule"} {
		h := inspect(t, s, name).Holders[0]
		if gone, err := s.ForceRelease(ctx, name, "test", h); err != nil || len(gone) != 1 || gone[0].Owner != h.Owner {
			t.Errorf("%s: %.300v, %v", name, gone, err)
		}
		if info := inspect(t, s, name); !info.IsFree() {
			t.Errorf("%s: still held", name)
		}
	}
}
