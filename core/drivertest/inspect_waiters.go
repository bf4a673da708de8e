package drivertest

import (
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// waitedBy checks who waits, in this order.
func (s *scene) waitedBy(info driver.LockInfo, line ...*waiter) {
	s.Helper()
	if len(info.Waiters) != len(line) {
		s.Fatalf("%d waiters are shown as %+v", len(line), info.Waiters)
	}
	for i, got := range info.Waiters {
		want := line[i].req
		c := want.Claims[0]
		if got.Owner != want.Owner || got.Mode != c.Mode || got.Permits != c.Permits || got.Rule != want.Rule || got.Trace != want.Trace {
			s.Errorf("waiter %d is shown as %+v, is %+v", i, got, want)
		}
		if age := time.Since(line[i].called); got.Waited < 0 || got.Waited > age+s.Early {
			s.Errorf("waiter %d is said to wait for %v, came %v ago", i, got.Waited, age)
		}
	}
}

// inspectWaiters inspects waiters while they give up and are served.
func inspectWaiters(s *scene) {
	a, b := s.open(), s.open()
	key := s.key()
	h := s.lock(a, key, long)
	var line []*waiter
	for i := range 4 {
		req := note(s.request(key, long), "rule", string(rune('a'+i)))
		line = append(line, s.queueUntil(s.ctx, []driver.Store{a, b}[i%2], req))
	}
	time.Sleep(settle)
	info := s.inspect(b, key)
	s.heldBy(info, driver.ModeExclusive, h)
	s.waitedBy(info, line...)
	for end := time.Now().Add(s.Late); info.Waiters[0].Waited < 3*settle; info = s.inspect(b, key) {
		if time.Now().After(end) {
			s.Fatalf("a waiter is said to wait for %v, came %v ago", info.Waiters[0].Waited, time.Since(line[0].called))
		}
		time.Sleep(settle)
	}
	line[1].cancel()
	_ = line[1].refused(s.Late)
	s.waitedBy(s.inspect(a, key), line[0], line[2], line[3])
	s.mustRelease(h)
	h = line[0].granted(s.Late)
	info = s.inspect(a, key)
	s.waitedBy(info, line[2], line[3])
	if len(info.Holders) != 1 || info.Holders[0].Owner != h.Owner || info.Holders[0].Trace != "a" {
		s.Errorf("a waiter that was served is shown as %+v", info.Holders)
	}
}

// inspectDead: a store may keep the place of a waiter that may only be reconnecting. It must
// not keep it for ever, nor show it before those that are served.
func inspectDead(s *scene) {
	a, b, c := s.open(), s.open(), s.open()
	key := s.key()
	h := s.lock(a, key, long)
	s.queue(b, s.TTL, s.claim(key))
	lives := s.queue(c, long, s.claim(key))
	s.Cut(s.TB, b)
	defer s.Heal(s.TB, b)
	s.mustRelease(h)
	next := lives.granted(s.TTL + s.Late)
	for end := time.Now().Add(10 * s.Late); len(s.inspect(a, key).Waiters) > 0; time.Sleep(settle) {
		if time.Now().After(end) {
			s.Fatalf("the dead is shown as %+v", s.inspect(a, key).Waiters)
		}
	}
	info := s.inspect(a, key)
	if len(info.Holders) != 1 || info.Holders[0].Owner != next.Owner {
		s.Errorf("the holder is shown as %+v", info.Holders)
	}
}
