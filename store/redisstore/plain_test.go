package redisstore

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/redistest"
)

// inside opens a store on a server of its own, for tests that look into it.
func inside(t *testing.T) (context.Context, *redis.Client, *Store) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	t.Cleanup(cancel)
	client := redistest.Start(t).Client()
	s, err := New(client, WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil))))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return ctx, client, s
}

// TestPlainRequestsAmongOthers puts requests into one group whose outcome depends
// on those before: on a line that begins there, and on a counter that is written
// by others, too. The counter is ahead of the clock, so that the tokens are known.
func TestPlainRequestsAmongOthers(t *testing.T) {
	t.Parallel()
	ctx, client, s := inside(t)
	const count = 8000000000000000
	client.Set(ctx, s.keys.Counter(), count, 0)
	ask := func(owner string, wait bool, claims ...driver.Claim) *request {
		a := s.asks(driver.Request{Owner: owner, Claims: claims, TTL: time.Minute, Rule: "rule", Trace: "trace"}, false)
		a.question(0, wait)
		return &a.last
	}
	free := func(owner, key string) *request {
		return s.releases(owner, []driver.Claim{driver.Exclusive(key)}, 0)[0].request
	}
	group := []*request{
		ask("a", false, driver.Exclusive("k")),
		ask("permit", false, driver.Permit("p", 2)),
		ask("a", false, driver.Exclusive("k")), // again: the same
		ask("b", true, driver.Exclusive("k")),  // gets in line
		ask("c", false, driver.Exclusive("k2")),
		free("x", "k2"), // the others come behind those that end something
		free("y", "k3"),
		free("z", "k4"),
	}
	if _, err := s.Acquire(ctx, driver.Request{Owner: "z", Claims: []driver.Claim{driver.Exclusive("k4")}, TTL: time.Minute}); err != nil {
		t.Fatal(err)
	}
	s.sendGroup(group)
	want := []string{
		"8000000000000002",
		"[granted 8000000000000006 0]", // three were counted for those that went the long way
		"[granted 8000000000000002",
		"[held 0 a:8000000000000002:",
		"8000000000000003",
		"[0]",
		"[0]",
		"1",
	}
	for i, r := range group {
		if got := fmt.Sprint(r.Value); r.Err != nil || !strings.HasPrefix(got, want[i]) {
			t.Errorf("request %d: want %s, got %s, %v", i, want[i], got, r.Err)
		}
		if r.Attempts.Possible() != 1 || time.Since(r.Attempts.Last) > time.Minute {
			t.Errorf("request %d: %+v", i, r.Attempts)
		}
	}
	if n, err := client.Get(ctx, s.keys.Counter()).Uint64(); n != count+6 {
		t.Errorf("the counter is %d, %v", n, err)
	}
	if v := client.Get(ctx, "lock:k").Val(); !strings.HasSuffix(v, ":rule|trace") {
		t.Errorf("the lock is %s", v)
	}
}

// TestReleaseTwiceInOneGroup: what was passed to the next one in the same breath is
// not the owner's any more; and where nobody can be told it is nobody's.
func TestReleaseTwiceInOneGroup(t *testing.T) {
	t.Parallel()
	ctx, client, s := inside(t)
	inbox := s.keys.NewInbox()
	listener := client.Subscribe(ctx, inbox)
	defer listener.Close()
	if _, err := listener.Receive(ctx); err != nil {
		t.Fatal(err)
	}
	ask := func(owner, key, inbox string) *request {
		a := s.asks(driver.Request{Owner: owner, Claims: []driver.Claim{driver.Exclusive(key)}, TTL: time.Minute}, false)
		a.number = 7
		a.inbox = inbox
		a.question(0, inbox != "")
		return &a.last
	}
	free := func(owner, key string) *request {
		return s.releases(owner, []driver.Claim{driver.Exclusive(key)}, 0)[0].request
	}
	send := func(group ...*request) (said []any) {
		s.sendGroup(group)
		for _, r := range group {
			said = append(said, r.Value)
		}
		return said
	}
	const count = 8000000000000000 // ahead of the clock
	client.Set(ctx, s.keys.Counter(), count, 0)
	send(ask("a", "k", ""), ask("x", "l", ""), ask("m", "m", ""))
	send(ask("b", "k", inbox), ask("y", "l", s.keys.NewInbox()))
	send(ask("c", "k", inbox), ask("dead", "m", inbox))
	send(ask("n", "m", inbox))
	entry := client.HGet(ctx, "{lock:m}:w", "dead").Val()
	client.HSet(ctx, "{lock:m}:w", "dead", "1"+entry[strings.Index(entry, " "):])
	said := send(free("a", "k"), free("x", "l"), free("a", "k"), free("m", "m"))
	if fmt.Sprint(said) != "[1 1 [0] 1]" {
		t.Errorf("the releases: %v", said)
	}
	if v := client.Get(ctx, "lock:k").Val(); !strings.HasPrefix(v, "b:8000000000000004:") {
		t.Errorf("k is had by %q", v)
	}
	if v := client.Get(ctx, "lock:m").Val(); !strings.HasPrefix(v, "n:8000000000000007:") {
		t.Errorf("m is had by %q", v)
	}
	if n, err := client.Get(ctx, s.keys.Counter()).Uint64(); n != count+7 {
		t.Errorf("the counter is %d, %v", n, err)
	}
	if v := client.LRange(ctx, "{lock:k}:q", 0, -1).Val(); fmt.Sprint(v) != "[c]" {
		t.Errorf("for k wait %q", v)
	}
	if n := client.Exists(ctx, "lock:l").Val(); n != 0 {
		t.Error("l was given to somebody who can't be told")
	}
	if v := client.LRange(ctx, "{lock:l}:q", 0, -1).Val(); fmt.Sprint(v) != "[y]" {
		t.Errorf("for l wait %q", v)
	}
	msg, err := listener.ReceiveMessage(ctx)
	if err != nil || !strings.HasPrefix(msg.Payload, "b 7 8") {
		t.Errorf("told %v, %v", msg, err)
	}
}
