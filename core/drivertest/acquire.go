package drivertest

import (
	"context"
	"sync"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

var acquireChecks = []check{
	{name: "A1 one lease per key at a time", run: func(s *scene) { s.takeTurns(1) }},
	{name: "A1 one lease per key at a time, holders dying", run: func(s *scene) { s.takeTurnsDying(1) }, permit: true},
	{name: "A1 keys are told apart", run: keysApart},
	{name: "A2 a grant lasts its TTL", run: lastsTTL, permit: true},
	{name: "A2 a grant lasts its TTL, nobody waiting", run: lastsTTLUnwatched, permit: true},
	{name: "A2 a grant after a wait lasts its TTL", run: lastsTTLAfterWait, permit: true},
	{name: "A2 a grant counts from before it was asked for", run: countsFromBefore},
	{name: "A3 tokens rise", run: tokensRise, permit: true},
	{name: "A3 tokens go with the clock", run: tokensGoWithClock},
	{name: "A3 tokens are exact as doubles", run: tokensFitDoubles},
	{name: "A3 tokens rise after the data is lost", run: tokensRiseAfterLoss, needs: toRestart},
	{name: "A4 idempotent by owner", run: idempotent},
	{name: "A4 idempotent by owner, asked at the same time", run: idempotentAtOnce, permit: true},
	{name: "A5 refused at once without Wait", run: refusedAtOnce, permit: true},
	{name: "A6 waiters are served in order of arrival", run: servedInOrder, ordered: true, permit: true},
	{name: "A6 waiters are served in order after an expiry", run: servedInOrderAfterExpiry, ordered: true},
	{name: "A6 without order, all who wait are served", run: allServed, unordered: true},
	{name: "A6 without order, nobody starves", run: nobodyStarves, unordered: true},
	{name: "A7 a waiter that gave up is skipped", run: skipsGivenUp, ordered: true, permit: true},
	{name: "A7 a waiter whose process closed is skipped", run: skipsClosed, permit: true},
	{name: "A7 a waiter whose process died is skipped", run: skipsDead, needs: toCut, permit: true},
	{name: "A8 a wait behind a holder ends as held", run: waitEndsHeld, permit: true},
	{name: "A8 a wait for a silent backend ends as unavailable", run: waitEndsUnavailable, needs: toSilence},
	{name: "A9 an error leaves nothing behind", run: leavesNothing},
	{name: "A9 a cancel that meets the grant leaves nothing behind", run: func(s *scene) { s.leavesNothingInRace(s.claim) }, permit: true},
	{name: "A9 an outage leaves nothing behind for longer than the TTL", run: leavesNothingInOutage, needs: toSilence},
	{name: "A10 an outage is unavailable within the bound, never held", run: outage, needs: toSilence},
	{name: "A11 closed after Close", run: closedAfterClose},
	{name: "A12 a refusal counts from the grant", run: countsFromGrant},
	{name: "A14 a waiter is told before its request ends", run: toldBeforeTheEnd},
}

// idempotent asks twice as the same owner, as a client does that retries after a lost reply. If
// the store answered "held", the owner would wait for itself until its lease is over.
func idempotent(s *scene) {
	a, b, c := s.open(), s.open(), s.open()
	for _, wait := range []bool{false, true} {
		s.inTime(s.TTL, func(ttl time.Duration) (tooLate bool) {
			req := s.request(s.key(), ttl)
			asked := time.Now()
			first := s.takeBy(a, req)
			// The owner that has the key must not be sent to the end of the queue.
			w := s.follow(b, req.Claims...)
			time.Sleep(ttl / 4)
			req.Wait = wait
			ctx, cancel := context.WithTimeout(s.ctx, ttl+s.soon(s.Late)) // behind w it would wait without end
			defer cancel()
			called := time.Now()
			again, err := s.acquire(ctx, a, req)
			returned := time.Now()
			switch {
			case err == nil && again.Token == first.Token:
			case s.over(asked, ttl):
				return true
			case err != nil:
				s.Fatalf("Acquire by the owner that has the key: %v", err)
			default:
				s.Errorf("asked again, the same owner got token %d after %d", again.Token, first.Token)
			}
			next := w.granted(ttl + 2*s.Late)
			s.lasted("the lease that was asked for again", ttl, called, returned, next.returned)
			s.mustRelease(next)
			s.mustRelease(s.lock(c, req.Claims[0].Key, long)) // it is one lease, so one release ends it
			return false
		})
	}
}

// idempotentAtOnce: a retry may overtake the request that it repeats.
func idempotentAtOnce(s *scene) {
	const times = 8
	a, b := s.open(), s.open()
	req := s.request(s.key(), long)
	var tokens [times]uint64
	var all sync.WaitGroup
	for i := range times {
		all.Go(func() {
			g, err := s.acquire(s.ctx, a, req)
			if err != nil {
				s.Errorf("Acquire: %v", err)
			}
			tokens[i] = g.Token
		})
	}
	all.Wait()
	for _, token := range tokens {
		if token != tokens[0] {
			s.Fatalf("one owner got several tokens: %v", tokens)
		}
	}
	if err := a.Release(s.ctx, driver.Grant{Owner: req.Owner, Claims: req.Claims, TTL: req.TTL, Token: tokens[0]}); err != nil {
		s.Fatalf("Release: %v", err)
	}
	s.lock(b, req.Claims[0].Key, long)
}

// countsFromGrant renews the lease in between, and looks at a refusal and at a wait.
func countsFromGrant(s *scene) {
	a, b := s.open(), s.open()
	key := s.key()
	asked := time.Now()
	h := s.lock(a, key, long)
	granted := time.Now()
	time.Sleep(s.TTL)
	s.mustRenew(h)
	time.Sleep(s.TTL)
	look := func(what string, said driver.HeldError, from, until time.Time) {
		// A clock on either end may count in milliseconds, and a store may learn the backend's time
		// from answers, of which one may come late. The renewal was a whole TTL later than the grant.
		least, most := from.Sub(granted)-s.TTL*3/4, until.Sub(asked)+2*time.Millisecond
		if said.HeldFor != 0 && (said.HeldFor < least || said.HeldFor > most) {
			s.Errorf("%s: held for %v, want %v to %v", what, said.HeldFor, least, most)
		}
	}
	called := time.Now()
	held := s.noRoom(b, key, s.claim(key))
	look("a refusal", *held, called, time.Now())

	req := s.request(key, long)
	req.Wait = true
	told := make(chan driver.HeldError, 1)
	req.OnHeld = func(held driver.HeldError) {
		select {
		case told <- held:
		default:
		}
	}
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	called = time.Now()
	over := make(chan struct{})
	go func() {
		defer close(over)
		_, _ = b.Acquire(ctx, req)
	}()
	select {
	case held := <-told:
		look("a wait", held, called, time.Now())
	case <-over:
		s.Errorf("a wait behind a holder ended, and was never told of it")
	}
	cancel()
	<-over
}

// refusedAtOnce also looks at the error.
func refusedAtOnce(s *scene) {
	a, b := s.open(), s.open()
	key := s.key()
	h := s.lock(a, key, long)
	for _, st := range []driver.Store{a, b} {
		called := time.Now()
		s.isInTheWay(h, st, s.claim(key))
		if took := time.Since(called); took > s.soon(s.Late) {
			s.Errorf("the refusal took %v", took)
		}
	}
}
