package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/store/redisstore"
)

func inspect(t testing.TB, s *redisstore.Store, key string) driver.LockInfo {
	t.Helper()
	info, err := s.Inspect(within(t, time.Second), key)
	if err != nil {
		t.Fatalf("Inspect: %v", err)
	}
	return info
}

func TestInspect(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	server := redistest.Start(t)
	s := open(t, server.Client())
	rule, trace := "POST /a:b|c d", "00-4bf92f35:77b3|x %-01"
	ask := func(owner string, c driver.Claim) driver.Request {
		return driver.Request{Owner: owner, Claims: []driver.Claim{c}, TTL: time.Minute, Rule: rule, Trace: trace}
	}
	take := func(owner string, c driver.Claim) driver.Grant {
		g, err := s.Acquire(ctx, ask(owner, c))
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	if info := inspect(t, s, "nothing"); info.Key != "nothing" || len(info.Holders)+len(info.Waiters) > 0 || info.Record != nil {
		t.Errorf("%+v", info)
	}
	x := take("x", driver.Exclusive("k"))
	for _, w := range []driver.Request{ask("w1", driver.Exclusive("k")), ask("r1", driver.Shared("k")), ask("p1", driver.Permit("k", 7))} {
		time.Sleep(2 * time.Millisecond) // their order shows in milliseconds
		wait(t, s, w)
	}
	info := inspect(t, s, "k")
	if len(info.Holders) != 1 || info.Mode != driver.ModeExclusive {
		t.Fatalf("%+v", info)
	}
	h := info.Holders[0]
	if h.Owner != "x" || h.Token != x.Token || h.Rule != rule || h.Trace != trace || h.HeldFor < 0 || h.HeldFor > 10*time.Second || h.Left < 50*time.Second {
		t.Errorf("%+v", h)
	}
	var line []string
	for _, w := range info.Waiters {
		line = append(line, fmt.Sprint(w.Owner, " ", w.Mode, " ", w.Permits))
		if w.Rule != rule || w.Trace != trace || w.Waited < 0 || w.Waited > 10*time.Second {
			t.Errorf("%+v", w)
		}
	}
	if want := []string{"w1 exclusive 0", "r1 shared 0", "p1 permit 7"}; !slices.Equal(line, want) {
		t.Errorf("waiters %q, want %q", line, want)
	}
	if e := held(t, s, driver.Shared("k")); e.Trace != trace || e.Holder != "x" {
		t.Errorf("%+v", e)
	}

	first, second := take("s1", driver.Shared("s")), take("s2", driver.Shared("s"))
	info = inspect(t, s, "s")
	if info.Mode != driver.ModeShared || len(info.Holders) != 2 || info.Holders[0].Token != first.Token || info.Holders[1].Token != second.Token || info.Holders[1].Trace != trace {
		t.Errorf("%+v", info)
	}
	if e := held(t, s, driver.Exclusive("s")); e.Trace != trace || (e.Holder != "s1" && e.Holder != "s2") {
		t.Errorf("%+v", e)
	}

	server.Client().Set(ctx, "lock:foreign", "9f2c", 0)
	if info = inspect(t, s, "foreign"); len(info.Holders) != 1 || info.Holders[0].Owner != "9f2c" || info.Holders[0].Token != 0 || info.Holders[0].Left >= 0 {
		t.Errorf("%+v", info)
	}
	server.Client().HSet(ctx, "lock:hash", "f", "v")
	if _, err := s.Inspect(ctx, "hash"); !errors.Is(err, redisstore.ErrWrongType) {
		t.Errorf("want ErrWrongType, got %v", err)
	}

	g := take("once", driver.Exclusive("o"))
	rec := driver.Record{Fingerprint: []byte("fp:1"), Result: []byte("result"), Trace: trace}
	if err := s.Complete(ctx, g, rec, time.Hour); err != nil {
		t.Fatal(err)
	}
	if r := inspect(t, s, "o").Record; r == nil || r.Owner != "once" || r.Size != 6 || r.Trace != trace || r.Left < 59*time.Minute {
		t.Errorf("%+v", r)
	}
	if _, got, err := s.Begin(ctx, ask("again", driver.Exclusive("o"))); err != nil || got == nil || got.Trace != trace || string(got.Fingerprint) != "fp:1" || string(got.Result) != "result" {
		t.Errorf("%+v, %v", got, err)
	}
	for _, want := range []bool{true, false} {
		if had, err := s.Forget(ctx, "o"); had != want || err != nil {
			t.Errorf("Forget: %t, %v", had, err)
		}
	}
}

func TestForceRelease(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	server := redistest.Start(t)
	s := open(t, server.Client(), noPolling)
	for _, c := range []driver.Claim{driver.Exclusive("x"), driver.Shared("s"), driver.Permit("p", 2)} {
		grants := []driver.Grant{lease(t, s, "o1", c)}
		if c.Mode != driver.ModeExclusive {
			grants = append(grants, lease(t, s, "o2", c))
		}
		w := enqueueFor(t, s, "w", driver.Exclusive(c.Key))
		holders, err := s.ForceRelease(ctx, c.Key, "why: because")
		if err != nil || len(holders) != len(grants) || holders[0].Owner != "o1" || holders[0].Token != grants[0].Token {
			t.Errorf("%v: %+v, %v", c, holders, err)
		}
		next := w.granted(soon)
		for _, g := range grants {
			for call, err := range map[string]error{"Renew": renew(t, s, g), "Release": s.Release(ctx, g)} {
				var loss *driver.LeaseLostError
				if !errors.As(err, &loss) || loss.Reason != driver.LossForced || loss.Detail != "why: because" || loss.Token != g.Token {
					t.Errorf("%v, %s: %v", c, call, err)
				}
			}
			if next.Token <= g.Token {
				t.Errorf("token %d follows %d", next.Token, g.Token)
			}
		}
		release(t, s, next)
		// The next lease of the same owner is another one.
		again := lease(t, s, "o1", c)
		server.Client().Del(ctx, "lock:"+c.Key)
		var loss *driver.LeaseLostError
		if err := renew(t, s, again); !errors.As(err, &loss) || loss.Reason != driver.LossTaken {
			t.Errorf("%v: %v", c, err)
		}
		if left := server.Client().PTTL(ctx, "{lock:"+c.Key+"}:f").Val(); left <= 0 || left > time.Hour {
			t.Errorf("the reason is kept for %v", left)
		}
	}
	if holders, err := s.ForceRelease(ctx, "free", "why"); err != nil || len(holders) != 0 {
		t.Errorf("%v, %v", holders, err)
	}
	server.Client().Set(ctx, "lock:foreign", "9f2c", 0)
	if holders, err := s.ForceRelease(ctx, "foreign", "why"); err != nil || len(holders) != 1 || holders[0].Owner != "9f2c" {
		t.Errorf("%v, %v", holders, err)
	}
	release(t, s, lease(t, s, "o", driver.Exclusive("foreign")))
	if n := server.Client().Exists(ctx, "{lock:free}:f").Val(); n != 0 {
		t.Error("a note of nothing")
	}
}

// listAll turns the pages, and counts them.
func listAll(t testing.TB, s *redisstore.Store, prefix string, limit int) (keys map[string]int, pages int) {
	t.Helper()
	keys = make(map[string]int)
	for cursor := ""; ; {
		page, next, err := s.List(within(t, 5*time.Second), driver.Listing{Prefix: prefix, Cursor: cursor, Limit: limit, Records: true})
		if err != nil {
			t.Fatalf("List: %v", err)
		}
		pages++
		for _, info := range page {
			keys[info.Key]++
		}
		if cursor = next; cursor == "" {
			return keys, pages
		}
	}
}

func TestList(t *testing.T) {
	t.Parallel()
	for name, start := range topologies {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			servers, client := start(t)
			s := open(t, client)
			want := map[string]bool{}
			for i := range 100 {
				key := fmt.Sprint("a*[1]?\\:", i)
				want[key] = true
				switch i % 4 {
				case 0:
					lease(t, s, "o", driver.Exclusive(key))
				case 1:
					lease(t, s, "o", driver.Shared(key))
				case 2:
					g := lease(t, s, "o", driver.Exclusive(key))
					if err := s.Complete(ctx, g, driver.Record{}, time.Minute); err != nil {
						t.Fatal(err)
					}
				case 3:
					lease(t, s, "o", driver.Permit(key, 1))
				}
				lease(t, s, "o", driver.Exclusive(fmt.Sprint("axx1x?\\:", i))) // a pattern would take it
				client.Set(ctx, fmt.Sprint("other:", i), "x", 0)
			}
			client.HSet(ctx, "lock:a*[1]?\\:hash", "f", "v")
			keys, pages := listAll(t, s, "a*[1]?\\", 10)
			for key := range want {
				if keys[key] == 0 {
					t.Errorf("%q is missing", key)
				}
			}
			if len(keys) != len(want) {
				t.Errorf("%d keys, want %d", len(keys), len(want))
			}
			if pages < 3 {
				t.Errorf("%d pages of 10", pages)
			}
			for _, server := range servers {
				if n := server.Commands(t)["keys"]; n > 0 {
					t.Error("KEYS keeps the others waiting")
				}
			}
			if all, _ := listAll(t, s, "", 0); len(all) != 200 {
				t.Errorf("%d keys in all", len(all))
			}
			for _, bad := range []string{"x", "a|x", "|", "|-1"} {
				if _, _, err := s.List(ctx, driver.Listing{Cursor: bad, Limit: 1, Records: true}); !errors.Is(err, driver.ErrInvalidOption) {
					t.Errorf("cursor %q: %v", bad, err)
				}
			}
		})
	}
}

// TestListWaitersOnly: a key without a holder that others still wait for.
func TestListWaitersOnly(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, server.Client(), noPolling)
	for _, c := range []driver.Claim{driver.Exclusive("x"), driver.Shared("s")} {
		lease(t, s, "o", driver.Exclusive(c.Key))
		enqueueFor(t, s, "w", c)
		server.Client().Del(context.Background(), "lock:"+c.Key)
	}
	if keys, _ := listAll(t, s, "", 10); keys["x"] == 0 || keys["s"] == 0 {
		t.Errorf("%v", keys)
	}
}

func TestInspectorInput(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	server := redistest.Start(t)
	s := open(t, server.Client(once), silent)
	calls := func(ctx context.Context, key string) map[string]error {
		_, ierr := s.Inspect(ctx, key)
		_, ferr := s.ForceRelease(ctx, key, "")
		_, rerr := s.Forget(ctx, key)
		return map[string]error{"Inspect": ierr, "ForceRelease": ferr, "Forget": rerr}
	}
	for call, err := range calls(ctx, "a{b") {
		if !errors.Is(err, driver.ErrInvalidKey) {
			t.Errorf("%s: want ErrInvalidKey, got %v", call, err)
		}
	}
	server.Pause()
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	all := calls(short, "k")
	_, _, all["List"] = s.List(short, driver.Listing{Limit: 1, Records: true})
	for call, err := range all {
		if !errors.Is(err, driver.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: want ErrUnavailable, got %v", call, err)
		}
	}
	server.Resume()
	server.Kill()
	all = calls(ctx, "k")
	_, _, all["List"] = s.List(ctx, driver.Listing{Limit: 1, Records: true})
	for call, err := range all {
		if !errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("%s: want ErrUnavailable, got %v", call, err)
		}
	}
	_ = s.Close()
	all = calls(ctx, "k")
	_, _, all["List"] = s.List(ctx, driver.Listing{Limit: 1, Records: true})
	for call, err := range all {
		if !errors.Is(err, driver.ErrClosed) {
			t.Errorf("%s: want ErrClosed, got %v", call, err)
		}
	}
}
