//go:build browser

package browsertest

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// world is a service under load, as a store would show it: who has which key is a function of time. So it
// looks the same in each picture, and has minutes of past at once.
type world struct {
	begin time.Time // of the past that it has
	lanes []lane
}

// lane is a key whose holders take turns.
type lane struct {
	key, rule string
	turns     []turn
	queue     int // how many of the next turns wait
	fixed     *driver.LockInfo
}

type turn struct {
	process   int
	hold, gap time.Duration // gap is before it
}

var processes = []string{"gateway-1/4021", "gateway-2/4022", "service-1/512", "service-2/513", "worker-7/88"}

func owner(process, nr int) string {
	return fmt.Sprintf("%s/1/t0abcd/%032x", processes[process], nr+1)
}

func trace(nr int) string {
	return fmt.Sprintf("00-%08x77b34da6a3ce929d0e0e4736-%016x-01", (nr+1)*2654435761%(1<<32), nr+1)
}

func newWorld() *world {
	w := &world{begin: time.Now().Add(-20 * time.Minute)}
	s := func(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }
	w.lanes = []lane{
		{key: "group:7/members", rule: "Groups.Join", queue: 3, turns: []turn{{2, s(4), 0}, {3, s(7), 0}, {2, s(3), 0}, {4, s(5), s(1)}, {0, s(2), 0}}},
		{key: "group:12/members", rule: "Groups.Join", queue: 1, turns: []turn{{3, s(9), s(2)}, {2, s(11), 0}}},
		{key: "user:42/status", rule: "Users.SetStatus", queue: 1, turns: []turn{{0, s(1.5), s(1)}, {1, s(2.5), s(.5)}}},
		{key: "report:daily", rule: "cron", turns: []turn{{4, 19 * time.Minute, s(9)}}},
		{key: "stock:pen", rule: "PUT /stock/{id}", turns: []turn{{1, s(20), s(12)}, {0, s(31), s(7)}}},
		{key: "message:90121", rule: "im:message", turns: []turn{{2, s(6), s(20)}, {3, s(8), s(30)}}},
		{key: "user:1088/status", rule: "Users.SetStatus", turns: []turn{{1, s(40), s(3)}}},
		{key: "cache:rates", rule: "refresh", turns: []turn{{0, s(14), s(8)}, {1, s(14), s(8)}}},
	}
	return w
}

// deadlock makes two requests nest keys in opposite orders.
func (w *world) deadlock(since time.Duration) {
	begin := time.Now().Add(-since)
	info := func(key, rule string, holder, waiter int) *driver.LockInfo {
		return &driver.LockInfo{
			Key:     key,
			Holders: []driver.Holder{{Owner: owner(holder, 900+holder), Token: uint64(1795353611000 + holder), Rule: rule, Trace: trace(900 + holder)}},
			Waiters: []driver.Waiter{{Owner: owner(waiter, 950+waiter), Rule: rule, Trace: trace(900 + waiter)}},
		}
	}
	w.lanes = append(w.lanes,
		lane{key: "account:alice", rule: "Transfer", fixed: info("account:alice", "Transfer", 2, 3), turns: []turn{{2, time.Since(begin), 0}}},
		lane{key: "account:bob", rule: "Transfer", fixed: info("account:bob", "Transfer", 3, 2), turns: []turn{{3, time.Since(begin), 0}}})
	w.lanes[len(w.lanes)-2].queue, w.lanes[len(w.lanes)-1].queue = int(begin.UnixMilli()), int(begin.UnixMilli())
}

// at returns what the store shows of a lane at a moment.
func (l lane) at(begin, now time.Time) (info driver.LockInfo, ok bool) {
	if l.fixed != nil {
		info = *l.fixed
		age := now.Sub(time.UnixMilli(int64(l.queue)))
		h, w := info.Holders[0], info.Waiters[0]
		h.HeldFor, h.Left, w.Waited = age+800*time.Millisecond, 7*time.Second, age
		info.Holders, info.Waiters = []driver.Holder{h}, []driver.Waiter{w}
		return info, age >= 0
	}
	var round time.Duration
	for _, t := range l.turns {
		round += t.gap + t.hold
	}
	passed := now.Sub(begin)
	nr := int(passed/round) * len(l.turns)
	passed %= round
	for i, t := range l.turns {
		if passed < t.gap+t.hold {
			if passed < t.gap {
				return info, false
			}
			held := passed - t.gap
			info = driver.LockInfo{Key: l.key, Holders: []driver.Holder{{
				Owner: owner(t.process, nr+i), Token: uint64(1795353600000 + nr + i), Rule: l.rule, Trace: trace(nr + i + len(l.key)*100),
				HeldFor: held, Left: 10*time.Second - held%(3*time.Second),
			}}}
			for j := 1; j <= l.queue; j++ {
				next := l.turns[(i+j)%len(l.turns)]
				info.Waiters = append(info.Waiters, driver.Waiter{
					Owner: owner(next.process, nr+i+j), Rule: l.rule, Trace: trace(nr + i + j + len(l.key)*100), Waited: held + time.Duration(3-j)*700*time.Millisecond,
				})
			}
			return info, true
		}
		passed -= t.gap + t.hold
	}
	return info, false
}

func (w *world) Inspect(_ context.Context, key string) (driver.LockInfo, error) {
	for _, l := range w.lanes {
		if l.key == key {
			if info, ok := l.at(w.begin, time.Now()); ok {
				return info, nil
			}
		}
	}
	return driver.LockInfo{Key: key}, nil
}

func (w *world) ListAll(context.Context, string) iter.Seq2[driver.LockInfo, error] {
	return func(yield func(driver.LockInfo, error) bool) {
		now := time.Now()
		for _, l := range w.lanes {
			if info, ok := l.at(w.begin, now); ok && !yield(info, nil) {
				return
			}
		}
		for i := range 3 {
			info := driver.LockInfo{Key: fmt.Sprint("message:", 90100+i), Record: &driver.RecordInfo{Owner: owner(2, i), Size: 120, Left: time.Hour}}
			if !yield(info, nil) {
				return
			}
		}
	}
}

func (w *world) ForceRelease(context.Context, string, string, ...driver.Holder) ([]driver.Holder, error) {
	return nil, nil
}

func (w *world) ShowKey(key string) string { return key }

func (w *world) Forget(context.Context, string, string) (bool, error) { return false, nil }
