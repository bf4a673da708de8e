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

// outcome is what became of a wait, and when.
type outcome struct {
	grant driver.Grant
	err   error
	at    time.Time
}

// enqueue puts a request in line before it returns. For use in a bubble.
func enqueue(t *testing.T, ctx context.Context, s *Store, req driver.Request) <-chan outcome {
	t.Helper()
	queued := false
	req.Wait = true
	req.OnHeld = func(driver.HeldError) { queued = true }
	done := make(chan outcome, 1)
	go func() {
		g, err := s.Acquire(ctx, req)
		done <- outcome{g, err, time.Now()}
	}()
	synctest.Wait()
	if !queued {
		t.Fatal("the request does not wait")
	}
	return done
}

func wantIs(t *testing.T, what string, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("%s: got %v, want an error that matches %v", what, err, target)
	}
}

// TestDyingHolders: the line moves on the moment a lease is over, however many
// holders in a row never release.
func TestDyingHolders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 30 * time.Second
		s, start := New(), time.Now()
		mustAcquire(t, s, request("k", 0, ttl))
		var line []<-chan outcome
		for i := range 100 {
			line = append(line, enqueue(t, bg, s, request("k", i+1, ttl)))
		}
		for i, w := range line {
			o := <-w
			if o.err != nil {
				t.Fatal(o.err)
			}
			if took := o.at.Sub(start); took != time.Duration(i+1)*ttl {
				t.Errorf("waiter %d was served after %v, want %v", i, took, time.Duration(i+1)*ttl)
			}
		}
	})
}

// TestRenewalHoldsTheLine: the line's timer was set before the renewals.
func TestRenewalHoldsTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, start := New(), time.Now()
		g := mustAcquire(t, s, request("k", 0, 3*time.Second))
		next := enqueue(t, bg, s, request("k", 1, time.Second))
		for range 5 {
			time.Sleep(2 * time.Second)
			if err := s.Renew(bg, []driver.Grant{g})[0]; err != nil {
				t.Fatal(err)
			}
		}
		if took := (<-next).at.Sub(start); took != 13*time.Second {
			t.Errorf("served after %v, want 13s: 3s after the last renewal", took)
		}
	})
}

// TestShorterTerm: the line's timer was set for a longer one.
func TestShorterTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, start := New(), time.Now()
		g := mustAcquire(t, s, request("k", 0, time.Hour))
		next := enqueue(t, bg, s, request("k", 1, time.Second))
		g.TTL = 2 * time.Second
		if err := s.Renew(bg, []driver.Grant{g})[0]; err != nil {
			t.Fatal(err)
		}
		if took := (<-next).at.Sub(start); took != g.TTL {
			t.Errorf("served after %v, want %v", took, g.TTL)
		}
	})
}

// TestLateTimer: a request that comes between the end of a lease and its timer does not
// overtake the line.
func TestLateTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New()
		mustAcquire(t, s, request("k", 0, time.Second))
		first := enqueue(t, bg, s, request("k", 1, time.Minute))
		s.mem.shard("k").entries["k"].timer.Stop()
		time.Sleep(time.Hour)
		_, err := s.Acquire(bg, request("k", 2, time.Second))
		wantIs(t, "the newcomer", err, driver.ErrHeld)
		if o := <-first; o.err != nil {
			t.Errorf("the first in line: %v", o.err)
		}
	})
}

// TestAnswerBeforeEnd: a wait that is answered, and then ends before it has seen
// the answer, returns the answer, or all would wait for a lease nobody has.
func TestAnswerBeforeEnd(t *testing.T) {
	for i := range 100 {
		s := New()
		g := mustAcquire(t, s, request("k", 0, time.Hour))
		ctx, end := context.WithCancel(bg)
		if i%2 == 0 {
			end = func() { _ = s.Close() }
		}
		req := request("k", 1, time.Hour)
		req.Wait = true
		req.OnHeld = func(driver.HeldError) {
			if err := s.Release(bg, g); err != nil {
				t.Error(err)
			}
			end()
		}
		g, err := s.Acquire(ctx, req)
		if err != nil {
			t.Fatalf("granted before it ended, and got: %v", err)
		}
		if err := s.Release(bg, g); err != nil {
			t.Fatal(err)
		}
		checkEmpty(t, s)
	}
}

func TestBadClaims(t *testing.T) {
	s := New()
	for key, claims := range map[string][]driver.Claim{
		"":  nil,
		"a": {driver.Permit("a", 0)},
		"b": {driver.Exclusive("a"), {Key: "b", Mode: 7}},
	} {
		_, err := s.Acquire(bg, driver.Request{Owner: "o", Claims: claims, TTL: time.Second, Wait: true})
		wantIs(t, fmt.Sprint("Acquire of ", claims), err, driver.ErrInvalidClaim)
		if bad := (*driver.ClaimError)(nil); !errors.As(err, &bad) || bad.Key != key {
			t.Errorf("%v, want one about %q", err, key)
		}
	}
	for _, claims := range [][]driver.Claim{
		nil, {driver.Shared("a")}, {driver.Permit("a", 2)}, {driver.Exclusive("a"), driver.Exclusive("b")},
	} {
		_, _, err := s.Begin(bg, driver.Request{Owner: "o", Claims: claims, TTL: time.Second})
		wantIs(t, fmt.Sprint("Begin of ", claims), err, errors.ErrUnsupported)
	}
	checkEmpty(t, s)
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
