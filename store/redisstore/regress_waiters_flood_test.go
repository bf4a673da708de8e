package redisstore

import (
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/redisstore/internal/script"
)

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
		if got := ask(c.queued, c.told, c.slept, "k"); got != c.want {
			t.Errorf("%s is patient: %t", name, got)
		}
	}
	if ask(true, false, time.Hour, "j", "k") {
		t.Error("a set is patient, which has a part of its claims")
	}
	for late, want := range map[time.Duration]time.Duration{
		0: DefaultWaiterLease, 3 * time.Second: DefaultWaiterLease + 6*time.Second, time.Hour: maxWaiterLease,
	} {
		s.signsLate.Store(int64(late))
		if got := s.waiterLease(); got != want {
			t.Errorf("signs of life are %v late: a waiter keeps its place for %v, want %v", late, got, want)
		}
	}
}
