package send

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/gather"
)

// stuck makes the batches of g wait for the end of the test. One is under way at once.
func stuck(t *testing.T, g *gather.Gather[*Request], first *Request) {
	end, send, under := make(chan struct{}), g.Send, make(chan struct{}, 1)
	g.Send = func(batch []*Request) {
		select {
		case under <- struct{}{}:
		default:
		}
		<-end
		send(batch)
	}
	t.Cleanup(func() { close(end) })
	newPending(first.Alone())
	g.Add(first)
	<-under
}

// Renewals joined the batches of other requests, and waited for their turn among those. In a process
// with a burst of work, thousands of leases were lost.
func TestRenewalsDoNotWaitForOtherRequests(t *testing.T) {
	ctx, _, s := connected(t)
	var renewals []*Request
	for _, key := range []string{"a", "b", "c"} {
		granted, err := answered(ctx, t, s, ask(s, "owner", "", driver.Exclusive(key))).Acquired(1)
		must(t, err)
		renewal := new(Request)
		claims := []driver.Claim{driver.Exclusive(key)}
		s.Names.Renew(&renewal.Call, driver.Grant{Owner: "owner", Claims: claims, TTL: time.Minute, Token: granted.Token}, claims)
		renewals = append(renewals, renewal)
	}
	stuck(t, &s.servers.only.plain, ask(s, "1", "", driver.Exclusive("d")))
	stuck(t, &s.servers.only.others, ask(s, "2", "", driver.Shared("e")))
	brief, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	require(t, s.Await(brief, nil, renewals), "the renewals wait")
	for _, r := range renewals {
		v, err := r.Verdict(1)
		check(t, err == nil && !v.Lost, "%+v, %v", v, err)
	}
}

// Signs of life of waiters go behind all other requests, and not in front of any.
func TestSignsOfLifeKeepNobodyWaiting(t *testing.T) {
	ctx, _, s := connected(t)
	sign := ask(s, "1", "", driver.Exclusive("d"))
	sign.Patient = true
	stuck(t, s.servers.only.with(sign), sign)
	brief, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for _, claim := range []driver.Claim{driver.Exclusive("a"), driver.Shared("b")} {
		answered(brief, t, s, ask(s, "2", "", claim))
	}
}

// A caller whose context had ended before its request waited for 10 ms all the same.
func TestAnEndedContextIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		began := time.Now()
		check(t, !newPending([]*Request{new(Request)}).wait(ctx), "a request without an answer counts as answered")
		took := time.Since(began)
		check(t, took <= 0, "waited for %v", took)
	})
}
