package memstore

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// setOf asks for keys exclusively; those that begin with r are shared.
func setOf(owner string, ttl time.Duration, keys ...string) driver.Request {
	req := driver.Request{Owner: owner, TTL: ttl}
	for _, key := range slices.Sorted(slices.Values(keys)) {
		c := driver.Exclusive(key)
		if strings.HasPrefix(key, "r") {
			c = driver.Shared(key)
		}
		req.Claims = append(req.Claims, c)
	}
	return req
}

// isHeldBy reports who holds key.
func isHeldBy(t *testing.T, s *Store, key string, want ...string) {
	t.Helper()
	info, err := s.Inspect(bg, key)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, h := range info.Holders {
		got = append(got, h.Owner)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s is held by %q, want %q", key, got, want)
	}
}

// TestSetThatLosesAPart begins again where that was, so that it never holds a
// key while it waits for an earlier one.
func TestSetThatLosesAPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New()
		mustAcquire(t, s, request("c", 0, 8*time.Second))
		set := enqueue(t, bg, s, setOf("set", time.Minute, "a", "b", "c"))
		second := enqueue(t, bg, s, request("a", 1, 9*time.Second))
		if had, err := s.ForceRelease(bg, "a", "test"); err != nil || len(had) != 1 || had[0].Owner != "set" {
			t.Errorf("%v, %v", had, err)
		}
		isHeldBy(t, s, "a", "a/1")
		time.Sleep(8 * time.Second) // its turn on c comes, and it sees
		synctest.Wait()
		isHeldBy(t, s, "b")
		isHeldBy(t, s, "c")
		if o := <-second; o.err != nil {
			t.Error(o.err)
		}
		o := <-set
		if o.err != nil {
			t.Fatal(o.err)
		}
		if err := errors.Join(s.Renew(bg, []driver.Grant{o.grant})[0], s.Release(bg, o.grant)); err != nil {
			t.Error(err)
		}
		checkEmpty(t, s)
	})
}

// TestSetThatLosesAPartWhileItWaits goes back to where that was.
func TestSetThatLosesAPartWhileItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New()
		c := mustAcquire(t, s, request("c", 0, time.Hour))
		set := enqueue(t, bg, s, setOf("set", 3*time.Second, "a", "b", "c"))
		second := enqueue(t, bg, s, request("a", 1, time.Hour))
		if _, err := s.ForceRelease(bg, "a", "test"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second) // it looks after its claims
		synctest.Wait()
		isHeldBy(t, s, "b")
		for key, want := range map[string]int{"a": 1, "c": 0} {
			if info, _ := s.Inspect(bg, key); len(info.Waiters) != want {
				t.Errorf("%s is waited for by %+v", key, info.Waiters)
			}
		}
		if err := errors.Join(s.Release(bg, c), s.Release(bg, (<-second).grant), s.Release(bg, (<-set).grant)); err != nil {
			t.Error(err)
		}
		checkEmpty(t, s)
	})
}

// TestSetOfAnOwnerThatHasAPart does not take that away when it fails.
func TestSetOfAnOwnerThatHasAPart(t *testing.T) {
	s := New()
	a := mustAcquire(t, s, setOf("o", time.Hour, "a"))
	b := mustAcquire(t, s, request("b", 0, time.Hour))
	_, err := s.Acquire(bg, setOf("o", time.Hour, "a", "b"))
	wantIs(t, "a set of which one key is held", err, driver.ErrHeld)
	if err := errors.Join(s.Renew(bg, []driver.Grant{a})[0], s.Release(bg, b)); err != nil {
		t.Error(err)
	}
	whole := mustAcquire(t, s, setOf("o", time.Hour, "a", "b"))
	if whole.Token <= b.Token {
		t.Errorf("token %d after %d", whole.Token, b.Token)
	}
	if err := errors.Join(s.Renew(bg, []driver.Grant{whole})[0], s.Release(bg, whole)); err != nil {
		t.Error(err)
	}
	checkEmpty(t, s)
}
