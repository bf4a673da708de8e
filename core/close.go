package core

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/internal/lazyctx"
)

// lifecycle knows whether the engine is open and who still works with it.
type lifecycle struct {
	ending context.Context // ends when Close begins: sends the waiters home
	end    context.CancelFunc

	mu      sync.Mutex
	closed  bool
	active  int            // acquisitions under way
	held    leaseList      // not yet released
	idle    chan struct{}  // closed by the last one out; nil until Close waits
	tidying sync.WaitGroup // goroutines that undo what came too late
	done    chan struct{}  // Close has finished
	err     error          // Close's answer
}

func (lc *lifecycle) init() {
	lc.ending, lc.end = context.WithCancel(context.Background())
	lc.done = make(chan struct{})
}

// enter registers an acquisition; the caller owes a leave.
func (lc *lifecycle) enter() error {
	lc.mu.Lock()
	defer lc.mu.Unlock()
	if lc.closed {
		return ErrClosed
	}
	lc.active++
	return nil
}

// leave ends an acquisition.
func (lc *lifecycle) leave() {
	lc.mu.Lock()
	defer lc.mu.Unlock()
	lc.active--
	lc.signal()
}

// hold registers a lease, unless the engine was closed meanwhile.
func (lc *lifecycle) hold(l *Lease) error {
	lc.mu.Lock()
	defer lc.mu.Unlock()
	if lc.closed {
		return ErrClosed
	}
	lc.held.add(l)
	return nil
}

// signal tells a waiting Close that nobody is left. Needs mu.
func (lc *lifecycle) signal() {
	if lc.idle != nil && lc.active == 0 && lc.held.n == 0 {
		close(lc.idle)
		lc.idle = nil
	}
}

// leaseList is leases in no order. It is no map because that takes longer than all
// else there is to do here, and more memory than two pointers in each lease.
type leaseList struct {
	first *Lease
	n     int
}

func (ll *leaseList) add(l *Lease) {
	if l.next = ll.first; l.next != nil {
		l.next.prev = l
	}
	ll.first = l
	ll.n++
}

func (ll *leaseList) remove(l *Lease) {
	if l.next != nil {
		l.next.prev = l.prev
	}
	if l.prev != nil {
		l.prev.next = l.next
	} else {
		ll.first = l.next
	}
	l.prev, l.next = nil, nil
	ll.n--
}

func (ll *leaseList) all() []*Lease {
	all := make([]*Lease, 0, ll.n)
	for l := ll.first; l != nil; l = l.next {
		all = append(all, l)
	}
	return all
}

// forget is called for a lease whose holder is done.
func (e *Engine) forget(l *Lease) {
	e.life.mu.Lock()
	defer e.life.mu.Unlock()
	e.life.held.remove(l)
	e.life.signal()
}

// Close takes no more acquisitions (they and all who wait get ErrClosed; only
// holders may still nest, as their work would fail in the middle otherwise),
// waits for the holders as long as ctx allows, takes the remaining leases away
// (their contexts end with a cause that matches ErrLeaseLost and ErrClosed),
// sends the releases that the store has not answered once more ([Lease.Release]),
// ends the engine's goroutines and closes the store. Giving leases back to a
// store that does not answer takes it [WithReleaseTimeout] longer than ctx, and
// what the store's own Close waits for comes on top of that.
//
// The error says, with ctx's, how many holders had to be cut off, joined with
// one that matches ErrOutcomeUnknown if there are leases whose release the store has
// not answered even so, and with the store's. A second Close waits for the first, as long as its own ctx
// allows, and returns its answer.
func (e *Engine) Close(ctx context.Context) error {
	lc := &e.life
	lc.mu.Lock()
	if lc.closed {
		lc.mu.Unlock()
		return lc.await(ctx)
	}
	lc.closed = true
	idle := make(chan struct{})
	lc.idle = idle
	lc.signal()
	lc.mu.Unlock()
	lc.end()
	e.lines.Close()

	// Nothing is bounded by ctx alone: it may have ended.
	bounded := e.detached(ctx)
	defer bounded.Cancel()
	var cut error
	select {
	case <-idle:
	case <-ctx.Done():
		if n := e.revokeAll(bounded); n > 0 {
			cut = fmt.Errorf("keyturn: closed with %d leases still held: %w", n, ctx.Err())
		}
		<-idle // acquisitions under way end at once: their contexts have
	}
	e.watchdog.Close()
	lc.tidying.Wait()
	owed := e.debts.close(bounded)
	lc.err = errors.Join(cut, owed, e.store.Close())
	close(lc.done)
	return lc.err
}

// await is a second Close.
func (lc *lifecycle) await(ctx context.Context) error {
	select {
	case <-lc.done:
		return lc.err
	case <-ctx.Done():
	}
	select {
	case <-lc.done: // both: an answer is worth more
		return lc.err
	default:
		return fmt.Errorf("keyturn: closing, not closed yet: %w", ctx.Err())
	}
}

// revokeAll takes away what is still held and says how many leases that were.
func (e *Engine) revokeAll(bounded *lazyctx.Context) int {
	e.life.mu.Lock()
	left := e.life.held.all()
	e.life.mu.Unlock()
	for _, l := range left {
		l.lose(driver.LossClosed)
	}
	// The store is told once nobody counts on a lease any more. Several at a
	// time and within one bound: it may not answer.
	var workers sync.WaitGroup
	for part := range slices.Chunk(left, len(left)/32+1) {
		workers.Go(func() {
			for _, l := range part {
				_ = l.giveBack(&within{made: bounded})
			}
		})
	}
	workers.Wait()
	return len(left)
}
