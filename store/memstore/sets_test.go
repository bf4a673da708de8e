package memstore

import (
	"context"
	"errors"
	"fmt"
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

// TestSetThatWaits holds what is before the claim it waits for, keeps that
// alive, and nothing else.
func TestSetThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New()
		b, d := mustAcquire(t, s, request("b", 0, time.Hour)), mustAcquire(t, s, request("d", 0, time.Hour))
		var told []string
		req := setOf("set", time.Second, "a", "b", "c", "d", "e")
		req.Wait, req.OnHeld = true, func(held driver.HeldError) { told = append(told, held.Key) }
		done := make(chan driver.Grant, 1)
		go func() {
			g, err := s.Acquire(bg, req)
			if err != nil {
				t.Error(err)
			}
			done <- g
		}()
		state := func(want ...string) {
			t.Helper()
			synctest.Wait()
			for i, key := range []string{"a", "b", "c", "d", "e"} {
				isHeldBy(t, s, key, strings.Fields(want[i])...)
			}
		}
		state("set", "b/0", "", "d/0", "")
		time.Sleep(10 * time.Second)
		state("set", "b/0", "", "d/0", "")
		if err := s.Release(bg, b); err != nil {
			t.Fatal(err)
		}
		state("set", "set", "set", "d/0", "")
		time.Sleep(10 * time.Second)
		state("set", "set", "set", "d/0", "")
		before := time.Now()
		if err := s.Release(bg, d); err != nil {
			t.Fatal(err)
		}
		g := <-done
		state("set", "set", "set", "set", "set")
		if g.Since.Before(before) || g.Token == 0 || fmt.Sprint(told) != "[b d]" {
			t.Errorf("%+v after waits for %v", g, told)
		}
		for _, c := range g.Claims {
			info, _ := s.Inspect(bg, c.Key)
			if h := info.Holders[0]; h.Token != g.Token || h.Left != time.Second || h.HeldFor != 0 {
				t.Errorf("%s: %+v, want token %d", c.Key, h, g.Token)
			}
		}
		if again, err := s.Acquire(bg, setOf("set", time.Second, "a", "b", "c", "d", "e")); err != nil || again.Token != g.Token {
			t.Errorf("asked again: %v, %v", again.Token, err)
		}
		if err := s.Renew(bg, []driver.Grant{g})[0]; err != nil {
			t.Error(err)
		}
		if err := s.Release(bg, g); err != nil {
			t.Error(err)
		}
		checkEmpty(t, s)
	})
}

// TestSetThatEnds holds nothing, however it ended.
func TestSetThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New()
		b := mustAcquire(t, s, request("b", 0, time.Hour))
		_, err := s.Acquire(bg, setOf("refused", time.Hour, "a", "b", "c"))
		wantIs(t, "a set of which one key is held", err, driver.ErrHeld)
		isHeldBy(t, s, "a")

		ctx, cancel := context.WithCancel(bg)
		cancelled := enqueue(t, ctx, s, setOf("cancelled", time.Hour, "a", "b", "c"))
		peer := s.Peer()
		closed := enqueue(t, bg, peer, setOf("closed", time.Hour, "b", "c"))
		behind := enqueue(t, bg, s, request("a", 1, time.Hour))
		cancel()
		_ = peer.Close()
		wantIs(t, "a set that was cancelled", (<-cancelled).err, driver.ErrHeld)
		wantIs(t, "a set whose store was closed", (<-closed).err, driver.ErrClosed)
		if o := <-behind; o.err != nil {
			t.Error(o.err)
		} else if err := s.Release(bg, o.grant); err != nil {
			t.Error(err)
		}
		if err := s.Release(bg, b); err != nil {
			t.Error(err)
		}
		checkEmpty(t, s)
	})
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

// TestSetThatLeaves a line lets those behind it in.
func TestSetThatLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New()
		reader := func(owner string) driver.Request {
			return driver.Request{Owner: owner, Claims: []driver.Claim{driver.Shared("b")}, TTL: time.Hour}
		}
		mustAcquire(t, s, reader("first"))
		ctx, cancel := context.WithCancel(bg)
		enqueue(t, ctx, s, setOf("set", time.Hour, "a", "b"))
		behind := enqueue(t, bg, s, reader("second"))
		_, err := s.Acquire(bg, setOf("other", time.Hour, "b", "c"))
		if held := (*driver.HeldError)(nil); !errors.As(err, &held) || held.Key != "b" || held.Ahead != 2 {
			t.Errorf("a set that is refused behind two: %+v", err)
		}
		cancel()
		if o := <-behind; o.err != nil {
			t.Error(o.err)
		}
		isHeldBy(t, s, "b", "first", "second")
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
