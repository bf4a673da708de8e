package watchdog

import (
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
