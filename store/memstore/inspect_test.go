package memstore

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/keystate"
)

// TestInspect shows everything there is to show of a key.
func TestInspect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New()
		look := func() driver.LockInfo {
			t.Helper()
			info, err := s.Inspect(bg, "k")
			if err != nil {
				t.Fatal(err)
			}
			return info
		}
		if info := look(); !reflect.DeepEqual(info, driver.LockInfo{Key: "k"}) {
			t.Errorf("of a key that nobody knows: %+v", info)
		}
		once := mustAcquire(t, s, request("k", 0, time.Minute))
		if err := s.Complete(bg, once, driver.Record{Result: []byte("result"), Trace: "t0"}, time.Hour); err != nil {
			t.Fatal(err)
		}
		first := driver.Request{Owner: "first", Claims: []driver.Claim{driver.Permit("k", 2)}, TTL: 20 * time.Second, Rule: "R1", Trace: "t1"}
		second := driver.Request{Owner: "second", Claims: []driver.Claim{driver.Permit("k", 2)}, TTL: 30 * time.Second}
		one := mustAcquire(t, s, first)
		time.Sleep(time.Second)
		two := mustAcquire(t, s, second)
		third := driver.Request{Owner: "third", Claims: []driver.Claim{driver.Shared("k")}, TTL: time.Second, Rule: "R3", Trace: "t3"}
		enqueue(t, bg, s, third)
		time.Sleep(time.Second)
		fourth := driver.Request{Owner: "fourth", Claims: []driver.Claim{driver.Permit("k", 5)}, TTL: time.Second}
		enqueue(t, bg, s, fourth)
		time.Sleep(time.Second)
		want := driver.LockInfo{
			Key:  "k",
			Mode: driver.ModePermit,
			Holders: []driver.Holder{
				{Owner: "first", Token: one.Token, Rule: "R1", Trace: "t1", HeldFor: 3 * time.Second, Left: 17 * time.Second},
				{Owner: "second", Token: two.Token, HeldFor: 2 * time.Second, Left: 28 * time.Second},
			},
			Waiters: []driver.Waiter{
				{Owner: "third", Mode: driver.ModeShared, Rule: "R3", Trace: "t3", Waited: 2 * time.Second},
				{Owner: "fourth", Mode: driver.ModePermit, Permits: 5, Waited: time.Second},
			},
			Record: &driver.RecordInfo{Owner: once.Owner, Size: 6, Trace: "t0", Left: time.Hour - 3*time.Second},
		}
		if info := look(); !reflect.DeepEqual(info, want) {
			t.Errorf("got %+v\nwant %+v", info, want)
		}
		if err := s.Renew(bg, []driver.Grant{two})[0]; err != nil {
			t.Error(err)
		}
		time.Sleep(17 * time.Second)
		if info := look(); len(info.Holders) != 1 || info.Holders[0].Owner != "second" || len(info.Waiters) != 2 {
			t.Errorf("when the first was over: %+v", info)
		}
		time.Sleep(time.Hour)
		if info := look(); len(info.Holders)+len(info.Waiters) > 0 || info.Record != nil {
			t.Errorf("when all was over: %+v", info)
		}
		s.mem.sweepAll()
		checkEmpty(t, s)
	})
}

// list goes through all pages and returns how often each key came.
func list(t *testing.T, s *Store, prefix string, limit int, between func(page int)) map[string]int {
	t.Helper()
	times := map[string]int{}
	cursor := ""
	for page := 0; ; page++ {
		infos, next, err := s.List(bg, driver.Listing{Prefix: prefix, Cursor: cursor, Limit: limit, Records: true})
		if err != nil {
			t.Fatal(err)
		}
		if limit > 0 && len(infos) > limit {
			t.Errorf("%d keys on a page of %d", len(infos), limit)
		}
		for _, info := range infos {
			times[info.Key]++
		}
		if next == "" {
			return times
		}
		cursor = next
		between(page)
	}
}

// TestList: keys that exist all the time are listed, whatever other keys come and go meanwhile.
func TestList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 500
		s := New()
		for i := range n {
			g := mustAcquire(t, s, request(fmt.Sprint("a:", i), 0, time.Hour))
			if i%2 == 0 {
				if err := s.Complete(bg, g, driver.Record{}, time.Hour); err != nil {
					t.Fatal(err)
				}
			}
			if i%4 == 0 { // on record, and held again
				mustAcquire(t, s, request(fmt.Sprint("a:", i), 1, time.Hour))
			}
			mustAcquire(t, s, request(fmt.Sprint("a:dead:", i), 0, time.Second))
			mustAcquire(t, s, request(fmt.Sprint("b:", i), 0, time.Hour))
		}
		time.Sleep(time.Second)
		for _, limit := range []int{1, 7, 100, 10_000, 0} {
			got := list(t, s, "a:", limit, func(page int) {
				g := mustAcquire(t, s, request(fmt.Sprint("a:new:", page), 0, time.Hour))
				if page%2 == 0 {
					if err := s.Release(bg, g); err != nil {
						t.Fatal(err)
					}
				}
			})
			for i := range n {
				if times := got[fmt.Sprint("a:", i)]; times != 1 {
					t.Fatalf("limit %d: a:%d came %d times", limit, i, times)
				}
			}
			for key := range got {
				if !strings.HasPrefix(key, "a:") || strings.HasPrefix(key, "a:dead") {
					t.Errorf("limit %d: %s came", limit, key)
				}
			}
		}
		if got := list(t, s, "", 100, func(int) {}); len(got) < 2*n {
			t.Errorf("%d keys of no prefix", len(got))
		}
		if got := list(t, s, "*", 100, func(int) {}); len(got) != 0 {
			t.Errorf("a prefix is no pattern: %v", got)
		}
	})
}

func TestListRefuses(t *testing.T) {
	s := New()
	for _, cursor := range []string{"x", "1", "64/a", "-1/a", "/a", "1a/"} {
		_, _, err := s.List(bg, driver.Listing{Cursor: cursor, Limit: 10, Records: true})
		wantIs(t, cursor, err, driver.ErrInvalidOption)
	}
	if _, _, err := s.List(bg, driver.Listing{Cursor: "63/a/b", Limit: 10, Records: true}); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(bg)
	cancel()
	_, _, err := s.List(ctx, driver.Listing{Limit: 10, Records: true})
	wantIs(t, "an ended context", err, context.Canceled)
}

// TestForceRelease takes a key from all of its holders, who learn why.
func TestForceRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New()
		if had, err := s.ForceRelease(bg, "k", "nobody"); had != nil || err != nil {
			t.Errorf("a free key: %v, %v", had, err)
		}
		var grants []driver.Grant
		for i := range many {
			grants = append(grants, mustAcquire(t, s, driver.Request{Owner: fmt.Sprint(i), Claims: []driver.Claim{driver.Shared("k"), driver.Exclusive(fmt.Sprint("l", i))}, TTL: time.Minute}))
		}
		next := enqueue(t, bg, s, request("k", 0, time.Minute))
		had, err := s.ForceRelease(bg, "k", "stuck")
		if err != nil || len(had) != len(grants) || had[3].Owner != "3" || had[3].Token != grants[3].Token {
			t.Errorf("%v, %v", had, err)
		}
		o := <-next
		if o.err != nil || o.grant.Token <= grants[len(grants)-1].Token {
			t.Errorf("the first waiter: %+v", o)
		}
		want := driver.LeaseLostError{Key: "k", Reason: driver.LossForced, Detail: "stuck"}
		for i, err := range s.Renew(bg, grants) {
			want.Token = grants[i].Token
			if lost := (*driver.LeaseLostError)(nil); !errors.As(err, &lost) || *lost != want {
				t.Errorf("a renewal: %#v, want %#v", err, want)
			}
		}
		for i, g := range grants {
			want.Token = g.Token
			if lost := (*driver.LeaseLostError)(nil); !errors.As(s.Release(bg, g), &lost) || *lost != want {
				t.Errorf("release %d: %#v, want %#v", i, lost, want)
			}
		}
		if err := s.Release(bg, o.grant); err != nil {
			t.Error(err)
		}
		checkEmpty(t, s)

		// An owner that tries again and loses it another way is told that.
		again := mustAcquire(t, s, driver.Request{Owner: "1", Claims: []driver.Claim{driver.Exclusive("k")}, TTL: time.Second})
		time.Sleep(time.Second)
		lost := (*driver.LeaseLostError)(nil)
		if !errors.As(s.Renew(bg, []driver.Grant{again})[0], &lost) || lost.Reason != driver.LossTaken {
			t.Errorf("%+v", lost)
		}
		time.Sleep(keystate.ReasonKept)
		if !errors.As(s.Renew(bg, grants[2:3])[0], &lost) || lost.Reason != driver.LossTaken {
			t.Errorf("after an hour: %+v", lost)
		}
	})
}

// TestForcedExecution leaves no record.
func TestForcedExecution(t *testing.T) {
	s := New()
	g, _, err := s.Begin(bg, request("k", 0, time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.ForceRelease(bg, "k", "stuck"); err != nil {
		t.Fatal(err)
	}
	lost := (*driver.LeaseLostError)(nil)
	if err := s.Complete(bg, g, driver.Record{}, time.Hour); !errors.As(err, &lost) || lost.Reason != driver.LossForced {
		t.Errorf("error %v", err)
	}
	checkEmpty(t, s)
}

// TestNotesAreBounded, and the latest are kept.
func TestNotesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 2 * maxNotes
		s := New()
		var grants []driver.Grant
		for i := range n {
			grants = append(grants, mustAcquire(t, s, driver.Request{Owner: fmt.Sprint(i), Claims: []driver.Claim{driver.Exclusive("k")}, TTL: time.Minute}))
			if _, err := s.ForceRelease(bg, "k", fmt.Sprint(i)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
		}
		if kept := len(s.mem.shard("k").forced.byLease); kept != maxNotes {
			t.Errorf("%d notes in a shard, want at most %d", kept, maxNotes)
		}
		for i, err := range s.Renew(bg, grants) {
			lost := (*driver.LeaseLostError)(nil)
			if !errors.As(err, &lost) || (lost.Detail != "") != (i >= n-maxNotes) {
				t.Errorf("note %d: %v", i, err)
			}
		}
		time.Sleep(keystate.ReasonKept)
		s.mem.sweepAll()
		if kept := len(s.mem.shard("k").forced.byLease); kept != 0 {
			t.Errorf("%d notes are left after an hour", kept)
		}
	})
}

// TestTokensAcrossShards rise for each key, also where sets bring keys of
// several shards together.
func TestTokensAcrossShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New()
		var tokens []uint64
		for i := range 1000 {
			req := setOf(fmt.Sprint(i), time.Minute, "a")
			if i%3 == 0 {
				req = setOf(fmt.Sprint(i), time.Minute, "a", "b", "c", "d")
			}
			g := mustAcquire(t, s, req)
			tokens = append(tokens, g.Token)
			if err := s.Release(bg, g); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.IsSorted(tokens) || len(slices.Compact(tokens)) != 1000 {
			t.Error("tokens do not rise")
		}
	})
}
