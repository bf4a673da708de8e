package redisstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/store/redisstore"
)

func inspect(t testing.TB, s *redisstore.Store, key string) driver.LockInfo {
	t.Helper()
	info, err := s.Inspect(within(t, time.Second), key)
	must(t, err)
	return info
}

// TestInspectForeignLocks: what other clients keep at a key is a holder without a token, which can be forced out.
func TestInspectForeignLocks(t *testing.T) {
	t.Parallel()
	server := database(t)
	s, admin := open(t, server.Client()), server.Client()
	admin.Set(bg, "lock:foreign", "9f2c", 0)
	info := inspect(t, s, "foreign")
	check(t, len(info.Holders) == 1 && info.Holders[0].Owner == "9f2c" && info.Holders[0].Token == 0 && info.Holders[0].Left < 0, "%+v", info)
	holders, err := s.ForceRelease(bg, "foreign", "why")
	check(t, err == nil && len(holders) == 1 && holders[0].Owner == "9f2c", "%v, %v", holders, err)
	release(t, s, lease(t, s, "o", driver.Exclusive("foreign")))
	admin.HSet(bg, "lock:hash", "f", "v")
	wantIs(t, "Inspect", errOf(s.Inspect(bg, "hash")), redisstore.ErrWrongType)
}

// TestReasonOfAForcedRelease is kept for an hour at most, and is that of the lease that was ended.
func TestReasonOfAForcedRelease(t *testing.T) {
	t.Parallel()
	server := database(t)
	s, admin := open(t, server.Client()), server.Client()
	for _, c := range []driver.Claim{driver.Exclusive("x"), driver.Shared("s"), driver.Permit("p", 2)} {
		lease(t, s, "o", c)
		must(t, errOf(s.ForceRelease(bg, c.Key, "why: because")))
		again := lease(t, s, "o", c)
		admin.Del(bg, "lock:"+c.Key)
		var loss *driver.LeaseLostError
		err := renew(t, s, again)
		check(t, errors.As(err, &loss) && loss.Reason == driver.LossTaken, "%v: %v", c, err)
		left := admin.PTTL(bg, "{lock:"+c.Key+"}:f").Val()
		check(t, left > 0 && left <= time.Hour, "the reason is kept for %v", left)
	}
}

// TestInspectorFails: an operator learns whether the key, the server or the store is at fault.
func TestInspectorFails(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, server.Client(once))
	for _, bad := range []string{"x", "a|x", "|", "|-1"} {
		_, _, err := s.List(within(t, time.Second), driver.Listing{Cursor: bad, Limit: 1, Records: true})
		wantIs(t, "the cursor "+bad, err, driver.ErrInvalidOption)
	}
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
			check(t, errors.Is(err, want) && !errors.Is(err, context.DeadlineExceeded), "%s, call %d: want %v, got %v", when, i, want, err)
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
