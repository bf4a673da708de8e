package core_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
)

// A set needs all of its parts: any of them refuses it, without a request, and what it finds out concerns
// only the one that failed.
func TestCircuitOfASet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, down := newSpy(), true // the part that has the keys with b in front
		eng := newEngine(t, described{s, func(d *driver.Description) { d.Partition = func(key string) string { return key[:1] } }})
		ask := func(keys ...string) error { return tryAll(eng, exclusive(keys...)...) }
		leases := []*core.Lease{mustAcquire(t, eng, "a:held"), mustAcquire(t, eng, "b:held")}
		time.Sleep(defaultTTL / 2)
		wantEqual(t, "batches of renewals, which do not wait for other parts'", s.renewals(), 2)
		for _, l := range leases {
			mustRelease(t, l)
		}
		s.onAcquire = func(_ context.Context, req driver.Request) error {
			if down && slices.ContainsFunc(req.Claims, func(c core.Claim) bool { return c.Key[0] == 'b' }) {
				return &core.UnavailableError{Op: "acquire", Key: "b:k", Err: errDown}
			}
			return nil
		}
		for range 3 {
			wantOnly(t, ask("a:k", "b:k", "c:k"), core.ErrUnavailable)
			time.Sleep(defaultCircuit)
		}
		_ = ask("a:k", "b:k", "c:k") // one may try again
		for _, one := range []string{"a:k", "c:k"} {
			wantNil(t, ask(one))
		}
		before := s.requests()
		wantOnly(t, ask("b:k"), core.ErrUnavailable, core.ErrCircuitOpen)
		wantOnly(t, ask("a:x", "b:x"), core.ErrUnavailable, core.ErrCircuitOpen)
		wantEqual(t, "requests meanwhile", s.requests()-before, 0)
		down = false
		time.Sleep(defaultCircuit)
		wantNil(t, ask("a:k", "b:k", "c:k"))
		wantNil(t, ask("b:k"))
	})
}

// internal/circuit has the rules. The engine tells it of renewals and of releases, and of grants that come
// too late for their lease to be good.
func TestWhatDoesNotOpenTheCircuit(t *testing.T) {
	sick := func(t *testing.T, eng *core.Engine) {
		wantOnly(t, errOf(attempt(eng, "sick", core.WithMaxWait(2*time.Second))), core.ErrUnavailable)
	}
	for name, tc := range map[string]struct {
		grant time.Duration // how long each takes to arrive
		do    func(*testing.T, *core.Engine, *outage)
	}{
		"a sick key, while leases are renewed": {do: func(t *testing.T, eng *core.Engine, o *outage) {
			l := mustAcquire(t, eng, "held", core.WithTTL(3*time.Second))
			o.hang()
			for range 10 {
				sick(t, eng)
			}
			mustRelease(t, l)
		}},
		"a sick key, while leases are released": {do: func(t *testing.T, eng *core.Engine, o *outage) {
			for i := range 10 {
				l := mustAcquire(t, eng, fmt.Sprint("k", i), core.WithTTL(time.Hour))
				if i%2 == 0 { // a loss is an answer, too
					breakLock(t, o.spy, l)
				}
				time.AfterFunc(time.Duration(1+2*i)*time.Second, func() { _ = l.Release(bg) })
			}
			o.hang()
			for range 10 {
				sick(t, eng)
			}
		}},
		"late grants": {grant: 3 * time.Second, do: func(t *testing.T, eng *core.Engine, _ *outage) {
			for range 5 {
				wantOnly(t, errOf(attempt(eng, "late", core.WithTTL(time.Second))), core.ErrUnavailable)
			}
		}},
	} {
		inBubble(t, name, func(t *testing.T) {
			o := &outage{newSpy()}
			eng := newEngine(t, &late{o.spy, func() { time.Sleep(tc.grant) }})
			tc.do(t, eng, o)
			o.mend()
			wantNil(t, errOf(attempt(eng, "afterwards")))
		})
	}
}

// The silence begins with the first request that went unanswered, though one
// that was sent later failed sooner. What that caller was told is not passed on
// to others, but as text.
func TestCircuitCountsFromTheFirstRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cause := errors.New("the first caller's own")
		o := &outage{newSpy()}
		o.set(func(ctx context.Context) error {
			<-ctx.Done()
			return &core.UnavailableError{Op: "acquire", Err: cause}
		})
		eng := newEngine(t, o)
		var first sync.WaitGroup
		first.Go(func() { wantIs(t, "error", errOf(attempt(eng, "first", core.WithMaxWait(defaultCircuit))), cause) })
		time.Sleep(defaultCircuit / 2)
		wantOnly(t, errOf(attempt(eng, "later", core.WithMaxWait(defaultCircuit/4))), core.ErrUnavailable)
		first.Wait()
		err := errOf(attempt(eng, "k"))
		wantOnly(t, err, core.ErrUnavailable, core.ErrCircuitOpen)
		check(t, !errors.Is(err, cause) && strings.Contains(err.Error(), cause.Error()), "error %v", err)
	})
}

// When a part of the store did not answer a release, all that was owed to the other parts was looked
// through, under a mutex: 64 times, once for each release under way.
func TestASilentPartDoesNotHaveTheOthersLookedThrough(t *testing.T) {
	const many = 2_000
	synctest.Test(t, func(t *testing.T) {
		s := newTelling()
		var located atomic.Int64
		eng := newEngine(t, described{s, func(d *driver.Description) {
			d.Partition = func(key string) string { located.Add(1); return key[:1] }
		}}, core.WithLinger(10*time.Second), core.WithMaxLingering(2*many))
		for _, part := range []string{"a", "b"} {
			for i := range many {
				time.Sleep(100 * time.Microsecond) // tokens must not outrun the clock
				mustRelease(t, mustAcquire(t, eng, fmt.Sprint(part, i)))
			}
		}
		answers := map[byte]error{'a': errDown}
		s.change(func() {
			s.onRelease = func(_ context.Context, g driver.Grant) error {
				time.Sleep(time.Millisecond)
				return answers[g.Claims[0].Key[0]]
			}
		})
		located.Store(0)
		s.tell("", "") // messages were missed, so all of them go back
		time.Sleep(100 * time.Millisecond)
		// Some questions for each lease: when it is owed, sent, answered or left to the goroutine.
		n := located.Load()
		check(t, n <= 5*2*many, "%d leases end, and the store was asked %d times in which part one is", 2*many, n)
		s.mend()
	})
}
