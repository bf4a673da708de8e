package redisstore

import (
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/redisstore/internal/script"
	"github.com/keyturn/keyturn/store/redisstore/internal/send"
)

// TestPassed: which messages are grants, to which questions.
func TestPassed(t *testing.T) {
	one := []driver.Claim{driver.Exclusive("k")}
	now := time.Now()
	for what, c := range map[string]struct {
		change func(*acquisition)
		m      script.Message
		grant  bool
	}{
		"the last question": {func(*acquisition) {}, script.Message{Question: 7, Token: 9}, true},
		"one before":        {func(*acquisition) {}, script.Message{Question: 6, Token: 9}, false},
		"none":              {func(a *acquisition) { a.number = 0 }, script.Message{Token: 9}, false},
		"late":              {func(a *acquisition) { a.last.Attempts.First = now.Add(-2100 * time.Millisecond) }, script.Message{Question: 7, Token: 9}, false},
		"sent again, after a long time": {func(a *acquisition) {
			a.last.Attempts = script.Attempts{Sent: 2, First: now.Add(-time.Minute), Last: now}
		}, script.Message{Question: 7, Token: 9}, false},
		"never sent": {func(a *acquisition) { a.last.Attempts = script.Attempts{} }, script.Message{Question: 7, Token: 9}, false},
	} {
		a := &acquisition{
			s: &Store{cfg: defaultConfig()}, req: driver.Request{Owner: "o", Claims: one, TTL: time.Minute},
			number: 7, inbox: "inbox", last: send.Request{Call: script.Call{Attempts: script.Attempts{Sent: 1, First: now.Add(-time.Second), Last: now}}},
		}
		c.change(a)
		ans, ok := a.passed(c.m)
		check(t, ok == c.grant, "%s: a grant: %t, %+v", what, ok, ans.grant)
		g := ans.grant
		good := g.Owner == "o" && g.Token == 9 && g.TTL == time.Minute && g.Term == 3*time.Second && g.Since.Equal(now.Add(-time.Second))
		check(t, !ok || good, "%s: %+v", what, g)
	}
}

// TestCounted: whose questions have a number.
func TestCounted(t *testing.T) {
	one, two := []driver.Claim{driver.Shared("k")}, []driver.Claim{driver.Shared("k"), driver.Shared("l")}
	for _, c := range []struct {
		claims   []driver.Claim
		once     bool
		replicas int
		want     bool
	}{
		{one, false, 0, true},
		{two, false, 0, false},
		{one, true, 0, false},
		{one, false, 1, false},
	} {
		a := &acquisition{s: &Store{cfg: config{replicas: c.replicas}}, req: driver.Request{Claims: c.claims}, once: c.once}
		got := a.counted()
		check(t, got == c.want, "%+v: %t", c, got)
	}
}

// 100 000 waiters for as many keys say that they are alive more often than a server can hear it. A
// request for a free key waited behind all of them, for seconds. Only what a waiter asks because it
// has slept for its time can wait; and the later that is heard, the longer it keeps its place.
func TestOnlySignsOfLifeArePatient(t *testing.T) {
	s := &Store{cfg: defaultConfig(), keys: script.NewNames("lock:", script.Single)}
	ask := func(queued, told bool, slept time.Duration, keys ...string) bool {
		var claims []driver.Claim
		for _, key := range keys {
			claims = append(claims, driver.Exclusive(key))
		}
		a := s.asks(driver.Request{Owner: "w", Claims: claims, TTL: time.Minute, Wait: true}, false)
		a.queued, a.told, a.inbox = queued, told, "inbox"
		a.state.At, a.state.Within = time.Now().Add(-slept), 2*time.Second
		a.question(0, false)
		return a.last.Patient
	}
	for name, c := range map[string]struct {
		queued, told bool
		slept        time.Duration
		want         bool
	}{
		"the first question": {false, false, time.Hour, false},
		"a message":          {true, true, 3 * time.Second, false},
		"a change":           {true, false, time.Second, false},
		"a sign of life":     {true, false, 2 * time.Second, true},
	} {
		check(t, ask(c.queued, c.told, c.slept, "k") == c.want, "%s is patient: %t", name, !c.want)
	}
	check(t, !ask(true, false, time.Hour, "j", "k"), "a set is patient, which has a part of its claims")
	for late, want := range map[time.Duration]time.Duration{
		0: DefaultWaiterLease, 3 * time.Second: DefaultWaiterLease + 6*time.Second, time.Hour: maxWaiterLease,
	} {
		s.signsLate.Store(int64(late))
		got := s.waiterLease()
		check(t, got == want, "signs of life are %v late: a waiter keeps its place for %v, want %v", late, got, want)
	}
}
