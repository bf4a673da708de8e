package watchdog

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

const ttl = 30 * time.Second

// life is a term with the clock that it goes by.
type life struct {
	term
	clock clock
	now   time.Time
}

// newLife begins a term with a grant that was asked for just now.
func newLife(change func(*driver.Grant)) *life {
	now := time.Now()
	g := driver.Grant{Owner: "o", Claims: []driver.Claim{driver.Exclusive("k")}, TTL: ttl, Token: 1, Since: now}
	if change != nil {
		change(&g)
	}
	l := &life{now: now}
	l.clock.started = now
	l.begin(&g, now, &l.clock)
	return l
}

// Until when a lease lasts, and when it is renewed, after each answer.
func TestTimes(t *testing.T) {
	second := func(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }
	for name, tc := range map[string]struct {
		grant       func(*driver.Grant)
		then        func(*life)
		at, renewAt time.Duration // from the grant
	}{
		"granted":   {at: ttl - Margin(ttl), renewAt: second(10)},
		"confirmed": {then: func(l *life) { l.request(change{}); l.confirm(ttl, l.now.Add(second(10)), &l.clock) }, at: second(40) - Margin(ttl), renewAt: second(20)},
		"unanswered": {
			then: func(l *life) {
				l.request(change{})
				l.fail(ttl, l.now.Add(second(10)), l.now.Add(second(12)), &l.clock)
			},
			at: ttl - Margin(ttl), renewAt: second(15),
		},
		"an unanswered shorter TTL may be in force": {
			then: func(l *life) {
				l.request(change{ttl: second(5)})
				l.fail(second(5), l.now.Add(second(10)), l.now.Add(second(11)), &l.clock)
			},
			at: second(15) - Margin(second(5)), renewAt: second(11.5),
		},
		"an unanswered longer TTL may not": {
			then: func(l *life) {
				l.request(change{ttl: second(60)})
				l.fail(second(60), l.now.Add(second(10)), l.now.Add(second(10)), &l.clock)
			},
			at: ttl - Margin(ttl), renewAt: second(13),
		},
		"a longer TTL": {
			then: func(l *life) {
				l.request(change{ttl: second(60)})
				l.confirm(second(60), l.now.Add(second(10)), &l.clock)
			},
			at: second(70) - Margin(second(60)), renewAt: second(30),
		},
		"a longer TTL of a lease that was shared meanwhile": {
			then: func(l *life) {
				l.request(change{ttl: second(60)})
				l.shared = true
				l.confirm(second(60), l.now.Add(second(10)), &l.clock)
			},
			at: second(40) - Margin(ttl), renewAt: second(20),
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLife(tc.grant)
			if tc.then != nil {
				tc.then(l)
			}
			if at, renewAt := time.Duration(l.at), time.Duration(l.renewAt); at != tc.at || renewAt != tc.renewAt {
				t.Errorf("lasts until %v, renewed at %v; want %v, %v", at, renewAt, tc.at, tc.renewAt)
			}
		})
	}
}

func TestOverdue(t *testing.T) {
	for name, tc := range map[string]struct {
		after, slept, maxHold time.Duration
		want                  driver.LossReason
	}{
		"in force":           {after: 29 * time.Second},
		"expired":            {after: 30 * time.Second, want: driver.LossExpired},
		"slept":              {after: time.Second, slept: 29 * time.Second, want: driver.LossSuspended},
		"a short sleep":      {after: time.Second, slept: 20 * time.Second},
		"the clock set back": {after: time.Second, slept: -time.Hour},
		"max hold":           {after: 2 * time.Second, maxHold: time.Second, want: driver.LossMaxHold},
		"a hold for ages":    {after: time.Second, maxHold: math.MaxInt64},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLife(nil)
			if tc.maxHold > 0 {
				l.holdUntil = moment(1).add(tc.maxHold)
			}
			l.clock.wall = func(at time.Time) time.Time { return at.Add(tc.slept) }
			if got := l.overdue(l.now.Add(tc.after), &l.clock); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

// Which leases join a batch early: neither an uncertain lease, which would be tried without
// pause, nor one in its short first term, nor one with a request under way.
func TestJoins(t *testing.T) {
	at := moment(7 * time.Second) // an eighth of the TTL before the renewal is due
	for name, tc := range map[string]struct {
		grant func(*driver.Grant)
		then  func(*life)
		want  bool
	}{
		"held":       {want: true},
		"renewing":   {then: func(l *life) { l.request(change{}) }},
		"uncertain":  {then: func(l *life) { l.request(change{}); l.fail(ttl, l.now, l.now.Add(4*time.Second), &l.clock) }},
		"first term": {grant: func(g *driver.Grant) { g.Term = 10 * time.Second }},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLife(tc.grant)
			if tc.then != nil {
				tc.then(l)
			}
			if got := l.joins(at); got != tc.want {
				t.Errorf("%v, want %v", got, tc.want)
			}
		})
	}
}

// A downgrade is asked for until the store has confirmed it, also where another request
// takes its place.
func TestConvertStaysUntilConfirmed(t *testing.T) {
	l := newLife(nil)
	shared := []driver.Claim{driver.Shared("k")}
	if g := l.request(change{claims: shared}); !slices.Equal(g.Claims, shared) || !l.convert || g.Term != 0 {
		t.Errorf("asked for %+v, convert %v", g, l.convert)
	}
	l.fail(ttl, l.now, l.now, &l.clock)
	if g := l.request(change{ttl: time.Minute}); !slices.Equal(g.Claims, shared) || !l.convert || g.TTL != time.Minute {
		t.Errorf("asked for %v with %v, convert %v", g.Claims, g.TTL, l.convert)
	}
	l.confirm(time.Minute, l.now, &l.clock)
	if l.convert {
		t.Error("it is asked for again, although the store confirmed it")
	}
	if l.request(change{claims: shared}); l.convert {
		t.Error("a downgrade to what is held was no plain renewal")
	}
}
