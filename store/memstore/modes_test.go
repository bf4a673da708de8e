package memstore

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// TestBlockers: whom a refused request is told of, and when it may come again.
func TestBlockers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			held, asks string
			holder     string
			retry      time.Duration
		}{
			{"r", "w", "2", 30 * time.Second},
			{"r", "p9", "2", 30 * time.Second},
			{"p9", "p3", "2", 10 * time.Second}, // when the first of them goes
			{"p9", "r", "2", 10 * time.Second},
		} {
			s := New()
			for i, ttl := range []time.Duration{20, 10, 30} {
				owner := fmt.Sprint(i)
				mustAcquire(t, s, driver.Request{Owner: owner, Trace: "t" + owner, Claims: []driver.Claim{claimOf(tt.held)}, TTL: ttl * time.Second})
			}
			ctx, end := context.WithCancel(bg)
			for i := range 2 { // each has one more in front
				req := driver.Request{Owner: "asks", Claims: []driver.Claim{claimOf(tt.asks)}, TTL: time.Second}
				_, err := s.Acquire(bg, req)
				want := driver.HeldError{Key: "k", Holder: tt.holder, Trace: "t" + tt.holder, RetryAfter: tt.retry, Ahead: i}
				if held := (*driver.HeldError)(nil); !errors.As(err, &held) || *held != want {
					t.Errorf("%s behind %s: %#v, want %#v", tt.asks, tt.held, err, want)
				}
				enqueue(t, ctx, s, request("k", i, time.Second))
			}
			end()
			synctest.Wait()
		}
	})
}

// TestManyReaders: an index and a list that must agree.
func TestManyReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 1000
		s := New()
		var grants []driver.Grant
		for i := range n {
			grants = append(grants, mustAcquire(t, s, driver.Request{Owner: fmt.Sprint(i), Claims: []driver.Claim{driver.Shared("k")}, TTL: term}))
		}
		writer := enqueue(t, bg, s, request("k", 0, time.Hour))
		time.Sleep(term / 2)
		for i, g := range grants {
			var err error
			switch i % 3 {
			case 0:
				err = s.Release(bg, g)
			case 1:
				err = s.Renew(bg, grants[i:i+1])[0]
			}
			if err != nil {
				t.Fatal(i, err)
			}
		}
		time.Sleep(term / 2)
		for i, err := range s.Renew(bg, grants) {
			if lost := i%3 != 1; lost != errors.Is(err, driver.ErrLeaseLost) {
				t.Errorf("reader %d: %v", i, err)
			}
		}
		for i := 1; i < n; i += 3 {
			if err := s.Release(bg, grants[i]); err != nil {
				t.Error(err)
			}
		}
		if err := s.Release(bg, (<-writer).grant); err != nil {
			t.Error(err)
		}
		checkEmpty(t, s)
	})
}

// TestFormerReaders are nobody to the key, and get a lease like others.
func TestFormerReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New()
		var grants []driver.Grant
		ask := func(i int) driver.Grant {
			return mustAcquire(t, s, driver.Request{Owner: fmt.Sprint(i), Claims: []driver.Claim{driver.Shared("k")}, TTL: term})
		}
		for i := range many {
			grants = append(grants, ask(i))
		}
		if err := s.Release(bg, grants[3]); err != nil {
			t.Fatal(err)
		}
		time.Sleep(term / 2)
		for i, err := range s.Renew(bg, grants[5:]) {
			if err != nil {
				t.Error(i, err)
			}
		}
		time.Sleep(term / 2)
		last := ask(99).Token
		for i, g := range grants[:5] {
			again := ask(i)
			if again.Token <= last || again.Token == g.Token {
				t.Errorf("reader %d got token %d again, which is not after %d", i, again.Token, last)
			}
			if err := s.Renew(bg, []driver.Grant{again})[0]; err != nil {
				t.Error(i, err)
			}
		}
	})
}

// TestNextPlace: the timer goes by the lease that ends first, wherever it stands.
func TestNextPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, start := New(), time.Now()
		permit := func(owner string, ttl time.Duration) driver.Request {
			return driver.Request{Owner: owner, Claims: []driver.Claim{driver.Permit("k", 3)}, TTL: ttl}
		}
		for i, ttl := range []time.Duration{time.Second, 10 * time.Second, 5 * time.Second} {
			mustAcquire(t, s, permit(fmt.Sprint(i), ttl))
		}
		var next []<-chan outcome
		for i := range 3 {
			next = append(next, enqueue(t, bg, s, permit(fmt.Sprint("w", i), time.Hour)))
		}
		for i, want := range []time.Duration{time.Second, 5 * time.Second, 10 * time.Second} {
			if took := (<-next[i]).at.Sub(start); took != want {
				t.Errorf("waiter %d got in after %v, want %v", i, took, want)
			}
		}
	})
}

// TestOwnerAsksTwiceAndWaits: it gets what it has, and does not wait for itself.
func TestOwnerAsksTwiceAndWaits(t *testing.T) {
	for _, name := range []string{"w", "r", "p2"} {
		synctest.Test(t, func(t *testing.T) {
			s := New()
			g := mustAcquire(t, s, request("k", 0, time.Hour))
			req := driver.Request{Owner: "o", Claims: []driver.Claim{claimOf(name)}, TTL: time.Hour}
			one, two := enqueue(t, bg, s, req), enqueue(t, bg, s, req)
			if err := s.Release(bg, g); err != nil {
				t.Fatal(err)
			}
			a, b := <-one, <-two
			if a.err != nil || b.err != nil || a.grant.Token != b.grant.Token {
				t.Errorf("%s: %+v, %+v", name, a, b)
			}
			if err := s.Release(bg, a.grant); err != nil {
				t.Error(err)
			}
			checkEmpty(t, s)
		})
	}
}

// TestExecutionIsNotShared: what was downgraded is no execution any more.
func TestExecutionIsNotShared(t *testing.T) {
	s := New()
	g := mustAcquire(t, s, request("k", 0, time.Hour))
	shared := g
	shared.Claims = []driver.Claim{driver.Shared("k")}
	if err := s.Downgrade(bg, shared); err != nil {
		t.Fatal(err)
	}
	for _, g := range []driver.Grant{g, shared} {
		wantIs(t, "Complete", s.Complete(bg, g, driver.Record{}, time.Hour), driver.ErrLeaseLost)
	}
	if err := s.Release(bg, shared); err != nil {
		t.Error(err)
	}
	checkEmpty(t, s)
}
