package drivertest

import (
	"slices"
	"sync"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// tells is what a store lists whose engine may keep leases.
var tells = driver.Description{OnWanted: func(func(key, owner string)) {}}

// tellsToo adds to a description that the engine may keep leases.
func tellsToo(d driver.Description) driver.Description {
	d.OnWanted = tells.OnWanted
	return d
}

var wantedChecks = []check{
	{name: "W1 a lease lingers only if it was asked for", run: lingersIfAsked, can: tells},
	{name: "W2 a refused request tells the holder's process", run: refusalTells, can: tells},
	{name: "W2 a waiting request tells the holder's process", run: waitTells, can: tells},
	{name: "W2 a set tells it", run: setTells, can: tellsToo(inSets)},
	{name: "W2 a set tells of the claim in its way, and of no later one", run: setTellsOfFirst, can: tellsToo(sharedSet), ordered: true},
	{name: "W2 Begin tells it", run: beginTells, can: tellsToo(records)},
	{name: "W2 a lease that was waited for is told of", run: waiterIsTold, can: tells, ordered: true},
	{name: "W2 nobody is told of a lease that does not linger", run: othersAreNotTold, can: tells},
	{name: "W3 a forced release tells it", run: forceTellsLingerer, can: tellsToo(driver.Description{Inspector: true})},
	{name: "W4 messages that may be missed are told of", run: missedIsTold, can: tells, needs: toCut},
	{name: "A12 a refusal by a lease that lingers counts from nothing", run: lingererCountsFromNothing, can: tells},
	{name: "I2 a lease that lingers is shown as such", run: lingererIsShown, can: tellsToo(driver.Description{Inspector: true})},
}

// ears are what a process is told of its leases.
type ears struct {
	mu    sync.Mutex
	heard []want
}

type want struct{ key, owner string }

// listens opens a store and notes what it tells its engine.
func (s *scene) listens() (driver.Store, *ears) {
	s.Helper()
	st, e := s.open(), new(ears)
	st.Describe().OnWanted(func(key, owner string) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.heard = append(e.heard, want{key, owner})
	})
	return st, e
}

func (e *ears) has(w want) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Contains(e.heard, w)
}

// hears waits until the process was told w.
func (s *scene) hears(e *ears, w want, within time.Duration) {
	s.Helper()
	for deadline := time.Now().Add(s.soon(within)); !e.has(w); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			s.Fatalf("the holder's process was not told that %+v is wanted", w)
		}
	}
}

// of is the message that h is wanted.
func of(h hold) want { return want{h.Claims[0].Key, h.Owner} }

// lingerer asks for key as the engine does for a lease that it may keep.
func (s *scene) lingerer(key string) driver.Request {
	req := s.ask(long, driver.Exclusive(key))
	req.HandOffs, req.Linger = someHandOffs, true
	return req
}

// linger takes key, which is free, with a lease that lingers. A store may need a while until
// messages reach it (W1).
func (s *scene) linger(st driver.Store, key string) hold {
	s.Helper()
	for deadline := time.Now().Add(5 * s.Late); ; time.Sleep(time.Millisecond) {
		h := s.takeBy(st, s.lingerer(key))
		if h.Lingers {
			return h
		}
		s.mustRelease(h)
		if time.Now().After(deadline) {
			s.Fatalf("no lease lingers, although it was asked for")
		}
	}
}

func lingersIfAsked(s *scene) {
	a, _ := s.listens()
	s.mustRelease(s.linger(a, s.key()))
	if h := s.lock(a, s.key(), long); h.Lingers {
		s.Errorf("a lease lingers that was not asked to: %+v", h.Grant)
	}
}

// refusalTells: the message comes to the process that has the lease, and to no other.
func refusalTells(s *scene) {
	a, heard := s.listens()
	b, other := s.listens()
	h, mine := s.linger(a, s.key()), s.linger(b, s.key())
	s.held(b, h.Claims[0].Key)
	s.hears(heard, of(h), s.Late)
	s.held(a, mine.Claims[0].Key)
	s.hears(other, of(mine), s.Late)
	if other.has(of(h)) || heard.has(of(mine)) {
		s.Errorf("a process was told of another's lease")
	}
}

func waitTells(s *scene) {
	a, heard := s.listens()
	h := s.linger(a, s.key())
	w := s.enqueue(s.open(), h.Claims[0].Key, long)
	s.hears(heard, of(h), s.Late)
	s.mustRelease(h)
	w.granted(s.Late)
}

// setTells: the claim that is in the way is the set's last.
func setTells(s *scene) {
	a, heard := s.listens()
	b := s.open()
	k := s.keys(2)
	set := []driver.Claim{driver.Exclusive(k[0]), driver.Exclusive(k[1])}
	h := s.linger(a, k[1])
	s.noRoom(b, k[1], set...)
	s.hears(heard, of(h), s.Late)
	s.mustRelease(h)
	h = s.linger(a, k[1])
	w := s.queue(b, long, set...)
	s.hears(heard, of(h), s.Late)
	s.mustRelease(h)
	w.granted(s.Late)
}

// setTellsOfFirst: there is room for the set at its first key, but others wait there (M2). A lease
// that lingers at its second key is in nobody's way yet. A later message shows that no earlier one
// is still under way.
func setTellsOfFirst(s *scene) {
	a, heard := s.listens()
	k := s.keys(3)
	mine, mark := s.linger(a, k[1]), s.linger(a, k[2])
	h := s.take(a, long, driver.Permit(k[0], 2))
	s.queue(a, long, driver.Exclusive(k[0]))
	set := []driver.Claim{driver.Permit(k[0], 2), driver.Exclusive(k[1])}
	b := s.open()
	s.noRoom(b, k[0], set...)
	s.queue(b, long, set...)
	s.held(b, k[2])
	s.hears(heard, of(mark), s.Late)
	if heard.has(of(mine)) {
		s.Errorf("a process was told of a claim that a set does not wait for yet")
	}
	s.mustRelease(h)
}

func beginTells(s *scene) {
	a, heard := s.listens()
	h := s.linger(a, s.key())
	w := s.enqueueBegin(s.open(), h.Claims[0].Key)
	s.hears(heard, of(h), s.Late)
	s.mustRelease(h)
	w.granted(s.Late)
}

// waiterIsTold: a lease that was granted to a waiter lingers, too. Of those that waited behind it
// the engine knows by Grant.Contended.
func waiterIsTold(s *scene) {
	a, heard := s.listens()
	b := s.open()
	first := s.linger(a, s.key())
	key := first.Claims[0].Key
	w := s.queueUntil(s.ctx, a, s.lingerer(key))
	behind := s.enqueue(b, key, long)
	s.mustRelease(first)
	h := w.granted(s.Late)
	if !h.Contended {
		s.hears(heard, of(h), s.Late)
	}
	s.mustRelease(h)
	s.mustRelease(behind.granted(s.Late))

	first = s.lock(b, key, long)
	w = s.queueUntil(s.ctx, a, s.lingerer(key))
	s.mustRelease(first)
	if h = w.granted(s.Late); !h.Lingers {
		s.Errorf("a lease that was waited for does not linger")
	}
	s.held(b, key)
	s.hears(heard, of(h), s.Late)
}

func othersAreNotTold(s *scene) {
	a, heard := s.listens()
	b := s.open()
	s.mustRelease(s.linger(a, s.key()))
	h := s.lock(a, s.key(), long)
	s.held(b, h.Claims[0].Key)
	time.Sleep(settle)
	if heard.has(of(h)) {
		s.Errorf("a process was told that its lease is wanted, which does not linger")
	}
}

func forceTellsLingerer(s *scene) {
	a, heard := s.listens()
	b := s.open()
	h := s.linger(a, s.key())
	s.force(b, h.Claims[0].Key, someReason)
	s.hears(heard, of(h), s.Late)
	h = s.linger(a, h.Claims[0].Key)
	s.force(b, h.Claims[0].Key, someReason, driver.Holder{Owner: h.Owner, Token: h.Token})
	s.hears(heard, of(h), s.Late)
}

// missedIsTold: how soon depends on how a store finds it out.
func missedIsTold(s *scene) {
	a, heard := s.listens()
	s.linger(a, s.key())
	if heard.has(want{}) {
		s.Errorf("messages may be missed, and leases linger")
	}
	s.Cut(s.TB, a)
	defer s.Heal(s.TB, a)
	s.hears(heard, want{}, 10*s.Late)
}

func lingererCountsFromNothing(s *scene) {
	a, _ := s.listens()
	h := s.linger(a, s.key())
	time.Sleep(settle)
	w := s.enqueue(s.open(), h.Claims[0].Key, long)
	if held := w.held(); held.Holder == h.Owner && held.HeldFor != 0 {
		s.Errorf("a lease that lingers is said to be held for %v", held.HeldFor)
	}
}

func lingererIsShown(s *scene) {
	a, _ := s.listens()
	for _, h := range []hold{s.linger(a, s.key()), s.lock(a, s.key(), long)} {
		info := s.inspect(a, h.Claims[0].Key)
		if len(info.Holders) != 1 || info.Holders[0].Lingers != h.Lingers {
			s.Errorf("a lease that lingers (%t) is shown as %+v", h.Lingers, info.Holders)
		}
	}
}
