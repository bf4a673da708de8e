package redisstore_test

import (
	"context"
	"errors"
	"fmt"
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

// TestInspectForeignLocks: what other clients keep at a key is a holder without a token, which can be forced out.
func TestInspectForeignLocks(t *testing.T) {
	t.Parallel()
	ctx, server := context.Background(), database(t)
	s, admin := open(t, server.Client()), server.Client()
	admin.Set(ctx, "lock:foreign", "9f2c", 0)
	if info := inspect(t, s, "foreign"); len(info.Holders) != 1 || info.Holders[0].Owner != "9f2c" || info.Holders[0].Token != 0 || info.Holders[0].Left >= 0 {
		t.Errorf("%+v", info)
	}
	if holders, err := s.ForceRelease(ctx, "foreign", "why"); err != nil || len(holders) != 1 || holders[0].Owner != "9f2c" {
		t.Errorf("%v, %v", holders, err)
	}
	release(t, s, lease(t, s, "o", driver.Exclusive("foreign")))
	admin.HSet(ctx, "lock:hash", "f", "v")
	if _, err := s.Inspect(ctx, "hash"); !errors.Is(err, redisstore.ErrWrongType) {
		t.Errorf("want ErrWrongType, got %v", err)
	}
}

// TestReasonOfAForcedRelease is kept for an hour at most, is that of the lease that was ended, and needs one.
func TestReasonOfAForcedRelease(t *testing.T) {
	t.Parallel()
	ctx, server := context.Background(), database(t)
	s, admin := open(t, server.Client()), server.Client()
	for _, c := range []driver.Claim{driver.Exclusive("x"), driver.Shared("s"), driver.Permit("p", 2)} {
		lease(t, s, "o", c)
		if _, err := s.ForceRelease(ctx, c.Key, "why: because"); err != nil {
			t.Fatal(err)
		}
		again := lease(t, s, "o", c)
		admin.Del(ctx, "lock:"+c.Key)
		var loss *driver.LeaseLostError
		if err := renew(t, s, again); !errors.As(err, &loss) || loss.Reason != driver.LossTaken {
			t.Errorf("%v: %v", c, err)
		}
		if left := admin.PTTL(ctx, "{lock:"+c.Key+"}:f").Val(); left <= 0 || left > time.Hour {
			t.Errorf("the reason is kept for %v", left)
		}
	}
	if _, err := s.ForceRelease(ctx, "free", "why"); err != nil || admin.Exists(ctx, "{lock:free}:f").Val() != 0 {
		t.Errorf("a reason for nothing, %v", err)
	}
}

// TestListAmongOtherKeys: a prefix is no pattern, other programs' keys are left out, and no command keeps the server busy.
func TestListAmongOtherKeys(t *testing.T) {
	t.Parallel()
	ctx, server := context.Background(), redistest.Start(t)
	s, admin := open(t, server.Client()), server.Client()
	const prefix, keys = "a*[1]?\\", 100
	for i := range keys {
		lease(t, s, "o", driver.Exclusive(fmt.Sprint(prefix, ":", i)))
		lease(t, s, "o", driver.Exclusive(fmt.Sprint("axx1x?\\:", i))) // a pattern would take it
		admin.Set(ctx, fmt.Sprint("other:", i), "x", 0)
	}
	admin.HSet(ctx, "lock:"+prefix+"hash", "f", "v")
	for prefix, want := range map[string]int{prefix: keys, "": 2 * keys} {
		seen, pages := map[string]bool{}, 0
		for cursor := ""; pages == 0 || cursor != ""; pages++ {
			page, next, err := s.List(within(t, 5*time.Second), driver.Listing{Prefix: prefix, Cursor: cursor, Limit: 10, Records: true})
			if err != nil {
				t.Fatal(err)
			}
			for _, info := range page {
				seen[info.Key] = true
			}
			cursor = next
		}
		if len(seen) != want || pages < 3 {
			t.Errorf("%q: %d keys on %d pages, want %d", prefix, len(seen), pages, want)
		}
	}
	if server.Commands(t)["keys"] > 0 {
		t.Error("KEYS keeps the others waiting")
	}
	for _, bad := range []string{"x", "a|x", "|", "|-1"} {
		if _, _, err := s.List(ctx, driver.Listing{Cursor: bad, Limit: 1, Records: true}); !errors.Is(err, driver.ErrInvalidOption) {
			t.Errorf("cursor %q: %v", bad, err)
		}
	}
}

// TestInspectorFails: an operator learns whether the key, the server or the store is at fault.
func TestInspectorFails(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, server.Client(once))
	fail := func(when, key string, want error) {
		t.Helper()
		ctx := within(t, 50*time.Millisecond)
		_, ierr := s.Inspect(ctx, key)
		_, ferr := s.ForceRelease(ctx, key, "")
		_, rerr := s.Forget(ctx, key)
		all := []error{ierr, ferr, rerr}
		if key == "k" {
			_, _, err := s.List(ctx, driver.Listing{Limit: 1, Records: true})
			all = append(all, err)
		}
		for i, err := range all {
			if !errors.Is(err, want) || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s, call %d: want %v, got %v", when, i, want, err)
			}
		}
	}
	fail("a wrong key", "a{b", driver.ErrInvalidKey)
	server.Pause()
	fail("a silent server", "k", driver.ErrUnavailable)
	server.Resume()
	server.Kill()
	fail("no server", "k", driver.ErrUnavailable)
	_ = s.Close()
	fail("a closed store", "k", driver.ErrClosed)
}
