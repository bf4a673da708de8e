package watchdog

import (
	"context"
	"errors"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// Holder is who has a lease that is watched.
type Holder interface {
	// Loss makes the error for a loss. Said is the store's error for it; nil: the
	// watchdog found out itself. It is called under a mutex, so it must do nothing else.
	Loss(reason driver.LossReason, said error) error
	// Lost is told once the lease is lost, without a mutex held.
	Lost(why error)
	// Renewed is told of each answer to a renewal by the watchdog, and how late the
	// renewal left.
	Renewed(late time.Duration, err error)
	// Downgrade asks the store to take over the modes of the grant's claims, which also
	// renews the lease. See [Watch.Downgrade].
	Downgrade(ctx context.Context, g driver.Grant) error
}

// Watch is the watchdog's keeping of one lease. The zero value keeps nothing; Begin
// comes first. It is safe for concurrent use after that.
type Watch struct {
	shard    *shard // whose mutex guards what follows
	holder   Holder
	term     term
	place    int           // in the shard's heap, from 1; 0: out of it
	answered chan struct{} // closed when no request is under way any more; nil: nobody waits
}

// Rest is what a released lease leaves to another holder.
type Rest struct {
	Since     time.Time     // what the present term counts from
	Term      time.Duration // how long that one is
	Heard     time.Time     // when the store last said that the lease is in force
	Unchanged bool          // nobody else knows of the lease, and nobody asked to change it
}

// Begin counts the first term of a grant that the store said at that moment to be in
// force. The grant must not change any more. The watch answers questions from then on;
// [Watch.Start] has the lease renewed.
func (w *Watch) Begin(dog *Watchdog, h Holder, g *driver.Grant, heard time.Time) {
	w.shard, w.holder = dog.shardOf(g.Claims[0].Key), h
	w.term.begin(g, heard, &dog.clock)
}

// Start takes the lease in at a moment that has just been. MaxHold bounds it from
// there; 0: no bound. It reports false when the lease's time is over already.
func (w *Watch) Start(now time.Time, maxHold time.Duration) bool {
	s := w.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	if reason := w.term.overdue(now, &w.shard.dog.clock); reason != "" {
		s.end(w, lost, w.holder.Loss(reason, nil))
		return false
	}
	if maxHold > 0 {
		w.term.holdUntil = now.Add(maxHold)
	}
	s.add(w)
	w.shard.dog.start(w.term.drift)
	if w.term.next().Before(s.look) || now.Add(heartbeat).Before(s.look) {
		w.shard.dog.poke()
	}
	return true
}

// Release takes the lease out. Err gives why from then on. The error is how the lease
// had ended before.
func (w *Watch) Release(why error) (Rest, error) {
	w.shard.mu.Lock()
	defer w.shard.mu.Unlock()
	if err := w.check(); err != nil {
		return Rest{}, err
	}
	w.shard.end(w, released, why)
	return w.term.rest(), nil
}

// Correct notes a loss that came out in the release.
func (w *Watch) Correct(why error) {
	w.shard.mu.Lock()
	defer w.shard.mu.Unlock()
	w.term.correct(why)
}

// Lose ends the lease as lost, if it has not ended otherwise, and returns how it
// ended. Its holder is not told.
func (w *Watch) Lose(why error) error {
	w.shard.mu.Lock()
	defer w.shard.mu.Unlock()
	w.shard.end(w, lost, why)
	return w.term.why
}

// Err says how the lease has ended, by the clock of this moment; nil: it is in force.
func (w *Watch) Err() error {
	w.shard.mu.Lock()
	defer w.shard.mu.Unlock()
	return w.check()
}

// check is Err. Needs the shard's mutex.
func (w *Watch) check() error {
	if w.term.why == nil {
		if reason := w.term.overdue(time.Now(), &w.shard.dog.clock); reason != "" {
			w.shard.end(w, lost, w.holder.Loss(reason, nil))
		}
	}
	return w.term.why
}

// Deadline is when the lease counts as lost unless it is renewed.
func (w *Watch) Deadline() time.Time {
	w.shard.mu.Lock()
	defer w.shard.mu.Unlock()
	return w.term.at
}

// Grant is what was granted with what has changed since: the TTL and the modes. Longest
// is the longest TTL that the store may give the lease by a request that was sent until
// now, as an extension may arrive although nobody is told.
func (w *Watch) Grant() (g driver.Grant, longest time.Duration) {
	w.shard.mu.Lock()
	defer w.shard.mu.Unlock()
	return w.term.current(), max(w.term.ttl, w.term.longest)
}

// Shared says whether another process renews the lease, too.
func (w *Watch) Shared() bool {
	w.shard.mu.Lock()
	defer w.shard.mu.Unlock()
	return w.term.shared
}

// Share notes that another process renews the lease, too, from now on, and returns the
// grant for it; false: the lease has ended, and may be another holder's by now. Of the
// TTLs that the store may have been told it takes the shortest: a longer one than is on
// record would be refused (N7).
func (w *Watch) Share() (driver.Grant, bool) {
	w.shard.mu.Lock()
	defer w.shard.mu.Unlock()
	t := &w.term
	if t.why != nil {
		return driver.Grant{}, false
	}
	t.shared = true
	g := t.current()
	if t.shortest > 0 {
		g.TTL = min(g.TTL, t.shortest)
	}
	return g, true
}

// take takes in the store's answer to a request, and returns how late after it was
// due the request left.
func (w *Watch) take(r request, sent, answered time.Time, err error) (late time.Duration) {
	if errors.Is(err, driver.ErrLeaseLost) {
		if why := w.Lose(w.holder.Loss(driver.LossTaken, err)); errors.Is(why, driver.ErrLeaseLost) {
			w.holder.Lost(why)
		}
	}
	w.shard.mu.Lock()
	defer w.shard.mu.Unlock()
	t := &w.term
	late = max(sent.Sub(t.renewAt), 0)
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

// free lets those go on who wait for a request to be over.
func (w *Watch) free() {
	if w.answered != nil {
		close(w.answered)
		w.answered = nil
	}
}

// reschedule finds the lease its new place in the heap.
func (w *Watch) reschedule() {
	if w.shard.move(w) {
		w.shard.dog.poke()
	}
}
