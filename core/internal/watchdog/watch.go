package watchdog

import (
	"errors"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// Holder is the holder of a watched lease.
type Holder interface {
	// Loss makes the error for a loss. said is the store's error for it; nil: the watchdog
	// itself noticed the loss. Loss is called under a mutex, so it must do nothing else.
	Loss(reason driver.LossReason, said error) error
	// Stop is called when the lease is lost, while no mutex is held. It ends the work under the
	// lease, and must be quick: that of other leases has to end, too.
	Stop(why error)
	// Lost is called after Stop, while no mutex is held. It tells everybody else.
	Lost(why error)
	// Renewed is called after each answer to a renewal. late is how late the renewal was sent.
	Renewed(late time.Duration, err error)
}

// Watch keeps one lease in force. The zero value keeps nothing until [Watch.Begin]; after that
// it is safe for concurrent use.
type Watch struct {
	shard    *shard // its mutex guards the fields below
	holder   Holder
	term     term
	place    int           // in the shard's heap, from 1; 0: not in it
	answered chan struct{} // closed when no request is under way any more; nil: nobody waits for that
}

// Rest is what is left of a released lease, for the store or the next holder.
type Rest struct {
	Grant     driver.Grant  // as [Watch.Grant] gives it
	Longest   time.Duration // the same
	Heard     time.Time     // when the store last said that the lease is in force
	At        time.Time     // when it was released
	Unchanged bool          // no other process knows the lease, and nobody asked to change it
}

// Begin starts the first term of a grant. heard is when the store said that the lease is in
// force. The grant must not change any more. From then on the watch answers questions;
// [Watch.Start] starts the renewals.
func (w *Watch) Begin(dog *Watchdog, h Holder, g *driver.Grant, heard time.Time) {
	w.shard, w.holder = dog.shardOf(g.Claims[0].Key), h
	w.term.early = float32(dog.config.Early)
	w.term.begin(g, heard, &dog.clock)
}

// Start starts the renewals. now must be a moment that has just been. maxHold counts from it;
// 0: no bound. Start reports false if the lease's time is over already.
func (w *Watch) Start(now time.Time, maxHold time.Duration) bool {
	s := w.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	if reason := w.term.overdue(now, &w.shard.dog.clock); reason != "" {
		s.end(w, lost, w.holder.Loss(reason, nil))
		return false
	}
	if maxHold > 0 {
		w.term.holdUntil = s.dog.clock.moment(now).add(maxHold)
	}
	s.add(w)
	s.dog.start(w.term.drift)
	if soon := s.dog.clock.moment(now).add(heartbeat); min(w.term.next(), soon) < s.look {
		s.dog.poke()
	}
	return true
}

// Release ends the renewals. From then on Err returns why. The error says how the lease had
// ended before; nil: it was in force.
func (w *Watch) Release(why error) (Rest, error) {
	w.shard.mu.Lock()
	defer w.shard.mu.Unlock()
	now := time.Now()
	if err := w.check(now); err != nil {
		return Rest{}, err
	}
	w.shard.end(w, released, why)
	return w.term.rest(now, &w.shard.dog.clock), nil
}

// Correct notes a loss that the answer to the release revealed.
func (w *Watch) Correct(why error) {
	w.shard.mu.Lock()
	defer w.shard.mu.Unlock()
	w.term.correct(why)
}

// Lose ends the lease as lost, if it has not ended, and returns why it ended. Its holder is not
// told.
func (w *Watch) Lose(why error) error {
	w.shard.mu.Lock()
	defer w.shard.mu.Unlock()
	w.shard.end(w, lost, why)
	return w.term.why
}

// Err says why the lease has ended, by the clock at this moment; nil: it is in force.
func (w *Watch) Err() error {
	w.shard.mu.Lock()
	defer w.shard.mu.Unlock()
	return w.check(time.Now())
}

// check is Err at that moment, which must have just been. Needs the shard's mutex.
func (w *Watch) check(now time.Time) error {
	if w.term.why == nil {
		if reason := w.term.overdue(now, &w.shard.dog.clock); reason != "" {
			w.shard.end(w, lost, w.holder.Loss(reason, nil))
		}
	}
	return w.term.why
}

// Deadline is when the lease counts as lost unless it is renewed.
func (w *Watch) Deadline() time.Time {
	w.shard.mu.Lock()
	defer w.shard.mu.Unlock()
	return w.shard.dog.clock.time(w.term.at, time.Now())
}

// Grant returns the grant with its present TTL and modes. longest is the longest TTL that the
// store may give the lease by a request that was sent before now: an extension may arrive
// although its answer was lost.
func (w *Watch) Grant() (g driver.Grant, longest time.Duration) {
	w.shard.mu.Lock()
	defer w.shard.mu.Unlock()
	return w.term.current(), w.term.mostAsked()
}

// Shared reports whether another process renews the lease, too.
func (w *Watch) Shared() bool {
	w.shard.mu.Lock()
	defer w.shard.mu.Unlock()
	return w.term.shared
}

// Share notes that from now on another process renews the lease, too, and returns the grant for
// it. It reports false if the lease has ended: another holder may have the key. The grant has
// the shortest of the TTLs that the store may have been told, because the store refuses a TTL
// that is longer than the one it has on record (N7).
func (w *Watch) Share() (driver.Grant, bool) {
	w.shard.mu.Lock()
	defer w.shard.mu.Unlock()
	t := &w.term
	if t.why != nil {
		return driver.Grant{}, false
	}
	t.shared = true
	g := t.current()
	if t.asked != nil && t.asked.shortest > 0 {
		g.TTL = min(g.TTL, t.asked.shortest)
	}
	return g, true
}

// take notes the store's answer to a request, and returns how late after its due time the
// request was sent. The caller owes a tell.
func (w *Watch) take(r request, sent, answered time.Time, err error) (late time.Duration) {
	if errors.Is(err, driver.ErrLeaseLost) {
		if why := w.Lose(w.holder.Loss(driver.LossTaken, err)); errors.Is(why, driver.ErrLeaseLost) {
			w.holder.Stop(why)
		}
	}
	w.shard.mu.Lock()
	defer w.shard.mu.Unlock()
	t := &w.term
	late = max(time.Duration(w.shard.dog.clock.moment(sent)-t.renewAt), 0)
	if t.why != nil {
		return late
	}
	if err == nil {
		t.confirm(r.grant.TTL, sent, &w.shard.dog.clock)
	} else {
		t.fail(r.grant.TTL, sent, answered, &w.shard.dog.clock)
	}
	w.free()
	w.reschedule()
	return late
}

// tell tells the holder if the answer err to a request was a loss.
func (w *Watch) tell(err error) {
	if !errors.Is(err, driver.ErrLeaseLost) {
		return
	}
	if why := w.Err(); errors.Is(why, driver.ErrLeaseLost) {
		w.holder.Lost(why)
	}
}

// free wakes those that wait for a request to be over.
func (w *Watch) free() {
	if w.answered != nil {
		close(w.answered)
		w.answered = nil
	}
}

// reschedule moves the lease to its new place in the heap.
func (w *Watch) reschedule() {
	if w.shard.move(w) {
		w.shard.dog.poke()
	}
}
