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
	rec   *driver.Record
	err   error
	at    time.Time
}

// enqueue puts a request in line before it returns. For use in a bubble.
func enqueue(t *testing.T, ctx context.Context, s *Store, req driver.Request) <-chan outcome {
	t.Helper()
	return wait(t, req, func(req driver.Request) (o outcome) {
		o.grant, o.err = s.Acquire(ctx, req)
		return o
	})
}

func enqueueBegin(t *testing.T, s *Store, req driver.Request) <-chan outcome {
	t.Helper()
	return wait(t, req, func(req driver.Request) (o outcome) {
		o.grant, o.rec, o.err = s.Begin(bg, req)
		return o
	})
}

func wait(t *testing.T, req driver.Request, ask func(driver.Request) outcome) <-chan outcome {
	t.Helper()
	queued := false
	req.Wait = true
	req.OnHeld = func(driver.HeldError) { queued = true }
	done := make(chan outcome, 1)
	go func() {
		o := ask(req)
		o.at = time.Now()
		done <- o
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

// TestManyGiveUp from every place of a long line.
func TestManyGiveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const waiters = 10_000
		s := New()
		g := mustAcquire(t, s, request("k", 0, time.Hour))
		ctx, giveUp := context.WithCancel(bg)
		gone := make(chan error, waiters)
		var stayed []<-chan outcome
		for i := range waiters {
			if i%1000 == 500 {
				synctest.Wait()
				stayed = append(stayed, enqueue(t, bg, s, request("k", -i, time.Hour)))
			}
			go func() {
				req := request("k", i+1, time.Hour)
				req.Wait = true
				_, err := s.Acquire(ctx, req)
				gone <- err
			}()
		}
		synctest.Wait()
		giveUp()
		for range waiters {
			wantIs(t, "a wait given up", <-gone, driver.ErrHeld)
		}
		for i, w := range stayed {
			if err := s.Release(bg, g); err != nil {
				t.Fatal(err)
			}
			o := <-w
			if g = o.grant; o.err != nil {
				t.Fatalf("waiter %d: %v", i, o.err)
			}
		}
		if err := s.Release(bg, g); err != nil {
			t.Fatal(err)
		}
		checkEmpty(t, s)
	})
}

func TestHeldError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New()
		holder := mustAcquire(t, s, request("k", 0, 10*time.Second))
		time.Sleep(4 * time.Second)
		ctx, cancel := context.WithTimeout(bg, time.Second)
		defer cancel()
		req := request("k", 1, time.Minute)
		_, refused := s.Acquire(bg, req)
		req.Wait = true
		_, ended := s.Acquire(ctx, req)
		for retry, err := range map[time.Duration]error{6 * time.Second: refused, 5 * time.Second: ended} {
			var held *driver.HeldError
			want := driver.HeldError{Key: "k", Holder: holder.Owner, RetryAfter: retry, HeldFor: 10*time.Second - retry}
			if !errors.As(err, &held) || *held != want {
				t.Errorf("got %#v, want holder %q and retry after %v", err, holder.Owner, retry)
			}
		}
	})
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New()
		peer := s.Peer()
		g := mustAcquire(t, s, request("k", 0, time.Hour))
		var ended []<-chan outcome
		for i := range 10 {
			ended = append(ended, enqueue(t, bg, s, request("k", i+1, time.Hour)))
		}
		stays := enqueue(t, bg, peer, request("k", 11, time.Hour))
		for range 2 {
			if err := s.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		}
		for _, w := range ended {
			wantIs(t, "a waiter", (<-w).err, driver.ErrClosed)
		}
		_, err := s.Acquire(bg, request("other", 0, time.Hour))
		wantIs(t, "Acquire after Close", err, driver.ErrClosed)
		_, _, err = s.Begin(bg, request("other", 0, time.Hour))
		wantIs(t, "Begin after Close", err, driver.ErrClosed)
		if err := peer.Release(bg, g); err != nil {
			t.Fatal(err)
		}
		if o := <-stays; o.err != nil {
			t.Errorf("the other store's waiter: %v", o.err)
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

// TestRecordPassesTheLine: those who want no more than the record need not
// wait for those who want the key.
func TestRecordPassesTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New()
		g := mustAcquire(t, s, request("k", 0, time.Hour))
		plain := enqueue(t, bg, s, request("k", 1, time.Hour))
		var readers []<-chan outcome
		for i := range 3 {
			readers = append(readers, enqueueBegin(t, s, request("k", i+2, time.Hour)))
		}
		if err := s.Complete(bg, g, driver.Record{Result: []byte("done")}, time.Hour); err != nil {
			t.Fatal(err)
		}
		for _, w := range readers {
			o := <-w
			if o.err != nil || o.rec == nil || string(o.rec.Result) != "done" {
				t.Fatalf("got %+v, want the record", o)
			}
			clear(o.rec.Result) // each has a copy of its own
		}
		if o := <-plain; o.err != nil || o.rec != nil {
			t.Errorf("got %+v, want the lease", o)
		}
	})
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
