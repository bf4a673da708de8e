package redisstore

import (
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

func TestParseMessage(t *testing.T) {
	for text, want := range map[string]message{
		"o 7 99":                   {question: 7, token: 99},
		"o 7 99 1":                 {},
		"o 7 99 alone":             {question: 7, token: 99, alone: true},
		"o":                        {},
		"o 7":                      {},
		"o -7 99":                  {},
		"o 7 x":                    {},
		"o 7 99999999999999999999": {},
	} {
		if owner, m := parseMessage(text); owner != "o" || m != want {
			t.Errorf("%q: to %q, %+v", text, owner, m)
		}
	}
	if owner, m := parseMessage(""); owner != "" || m != (message{}) {
		t.Errorf("nothing: to %q, %+v", owner, m)
	}
}

// TestPassed: which messages are grants, to which questions.
func TestPassed(t *testing.T) {
	one := []driver.Claim{driver.Exclusive("k")}
	now := time.Now()
	for what, c := range map[string]struct {
		change func(*asking)
		m      message
		grant  bool
	}{
		"the last question":             {func(*asking) {}, message{question: 7, token: 9}, true},
		"one before":                    {func(*asking) {}, message{question: 6, token: 9}, false},
		"none":                          {func(a *asking) { a.number = 0 }, message{token: 9}, false},
		"late":                          {func(a *asking) { a.last.wire.first = now.Add(-2100 * time.Millisecond) }, message{question: 7, token: 9}, false},
		"sent again, after a long time": {func(a *asking) { a.last.wire = wire{sent: 2, first: now.Add(-time.Minute), last: now} }, message{question: 7, token: 9}, false},
		"never sent":                    {func(a *asking) { a.last.wire = wire{} }, message{question: 7, token: 9}, false},
	} {
		a := &asking{
			s: &Store{cfg: defaultConfig()}, req: driver.Request{Owner: "o", Claims: one, TTL: time.Minute},
			number: 7, inbox: "inbox", last: request{wire: wire{sent: 1, first: now.Add(-time.Second), last: now}},
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
		a := &asking{s: &Store{cfg: config{replicas: c.replicas}}, req: driver.Request{Claims: c.claims}, once: c.once}
		if got := a.counted(); got != c.want {
			t.Errorf("%+v: %t", c, got)
		}
	}
}
