package core_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/store/memstore"
)

// The average hold of a key says nothing of a holder that has been at it for a
// thousand times that: it was "retry after 2 ms", for as long as it took.
func TestRetryAfterGoesByTheHolder(t *testing.T) {
	const usual, unusual, ttl = 2 * time.Millisecond, 6 * time.Second, 30 * time.Second
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		here := newEngine(t, store, core.WithTTL(ttl))
		there := newEngine(t, store.Peer(), core.WithTTL(ttl))
		stranger := newEngine(t, store.Peer())
		for range 100 {
			for _, eng := range []*core.Engine{here, there} {
				l := mustAcquire(t, eng, "k")
				time.Sleep(usual)
				mustRelease(t, l)
			}
		}
		hint := func(eng *core.Engine, opt core.CallOption) time.Duration {
			t.Helper()
			_, err := eng.Acquire(context.Background(), "k", opt)
			var held *core.HeldError
			if !errors.As(err, &held) {
				t.Fatalf("error %v", err)
			}
			return held.RetryAfter
		}
		within := func(what string, got, least, most time.Duration) {
			t.Helper()
			if got < least || got > most {
				t.Errorf("%s: retry after %v, want %v to %v", what, got, least, most)
			}
		}
		holder := mustAcquire(t, here, "k")
		within("at once", hint(here, core.WithFailFast()), usual, 2*usual)
		within("at once, there", hint(there, core.WithFailFast()), usual, 2*usual)
		time.Sleep(unusual)
		within("here", hint(here, core.WithFailFast()), unusual, unusual)
		within("there", hint(there, core.WithFailFast()), unusual, unusual)
		within("here, in line", hint(here, core.WithMaxWait(time.Second)), unusual+time.Second, unusual+time.Second)
		within("there, in line", hint(there, core.WithMaxWait(time.Second)), unusual+2*time.Second, unusual+2*time.Second)
		within("who knows of no lease that has ended", hint(stranger, core.WithFailFast()), unusual, unusual+2*time.Second)
		time.Sleep(5 * time.Minute)
		within("never beyond the lease", hint(there, core.WithFailFast()), ttl/2, ttl)
		mustRelease(t, holder)
	})
}

// A lease that goes from hand to hand is one to the store; but each hand counts for
// itself to those of its process.
func TestRetryAfterGoesByTheHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eng := newEngine(t, memstore.New())
		holder := mustAcquire(t, eng, "k")
		time.Sleep(80 * time.Millisecond)
		heir := make(chan *core.Lease)
		go func() { heir <- mustAcquire(t, eng, "k") }()
		synctest.Wait()
		mustRelease(t, holder)
		second := <-heir
		if !core.Observed(second).HandedOff() {
			t.Fatal("not handed on")
		}
		time.Sleep(time.Second)
		_, err := eng.TryAcquire(context.Background(), "k")
		var held *core.HeldError
		if !errors.As(err, &held) || held.HeldFor != time.Second {
			t.Errorf("error %#v, want one that is held for a second", err)
		}
		_, err = eng.Acquire(context.Background(), "k", core.WithMaxWait(time.Second))
		if !errors.As(err, &held) || held.HeldFor != 2*time.Second {
			t.Errorf("error %#v, want one that is held for two seconds", err)
		}
		mustRelease(t, second)
	})
}
