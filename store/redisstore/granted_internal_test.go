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
		if ok != c.grant {
			t.Errorf("%s: a grant: %t, %+v", what, ok, ans.grant)
		}
		if g := ans.grant; ok && (g.Owner != "o" || g.Token != 9 || g.TTL != time.Minute || g.Term != 3*time.Second || !g.Since.Equal(now.Add(-time.Second))) {
			t.Errorf("%s: %+v", what, g)
		}
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
		if got := a.counted(); got != c.want {
			t.Errorf("%+v: %t", c, got)
		}
	}
}
