package watchdog

import (
	"container/heap"
	"slices"
	"sync"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// shard has a part of the leases and a mutex of its own. Callers of different keys rarely meet
// on one mutex.
type shard struct {
	dog  *Watchdog
	mu   sync.Mutex
	heap watchHeap
	look moment // when the watchdog looks here next; 0: now
	busy bool   // there were leases since the last look

	_ [64]byte // keeps the neighbour's mutex off this one's cache line
}

// The methods of shard need mu.

func (s *shard) add(w *Watch) {
	heap.Push(&s.heap, w)
	s.busy = true
}

// end ends a lease for good and takes it out of the heap.
func (s *shard) end(w *Watch, st state, why error) {
	w.term.end(st, why)
	w.free()
	if w.place > 0 {
		heap.Remove(&s.heap, w.place-1)
	}
}

// move moves a lease to its new place, and reports whether it is the first one now. A lease
// that is out of the heap stays out.
func (s *shard) move(w *Watch) (first bool) {
	if w.place == 0 {
		return false
	}
	heap.Fix(&s.heap, w.place-1)
	return w.place == 1
}

// expire takes out every lease that is over, wherever it is in the heap, and adds it to the
// round.
func (s *shard) expire(r *round) {
	for _, w := range slices.Clone(s.heap) {
		if reason := w.term.overdue(r.now, &s.dog.clock); reason != "" {
			s.lose(w, reason, r)
		}
	}
}

func (s *shard) lose(w *Watch, reason driver.LossReason, r *round) {
	s.end(w, lost, w.holder.Loss(reason, nil))
	r.lost = append(r.lost, w)
}

// renewAll makes every lease due for renewal now.
func (s *shard) renewAll(now moment) {
	for _, w := range s.heap {
		w.term.renewAt = now
	}
	heap.Init(&s.heap)
}

// collect takes out the lost leases, and adds them and the due ones to the round.
func (s *shard) collect(r *round) {
	for len(s.heap) > 0 {
		w := s.heap[0]
		t := &w.term
		if reason := t.overdue(r.now, &s.dog.clock); reason != "" {
			s.lose(w, reason, r)
			continue
		}
		renew := t.due(r.at) || len(r.due) > 0 && t.joins(r.at)
		if !renew && t.next() > r.at {
			break
		}
		if renew {
			r.due = append(r.due, w.request(r.at, change{}))
		}
		s.move(w)
	}
}

// rest says when to look at this shard again: with leases, after a heartbeat at most. After the
// heap has become empty there is one more heartbeat. Otherwise a caller that takes one lease
// after the other would wake the goroutine for each, which costs more than the lease. A look
// that another shard asked for does not count as that heartbeat.
func (s *shard) rest(now moment) moment {
	switch {
	case len(s.heap) > 0:
		s.look = min(s.heap[0].term.next(), now.add(heartbeat))
	case s.busy:
		s.look = now.add(heartbeat)
	case s.look <= now:
		s.look = now.add(idle)
	}
	s.busy = false
	return s.look
}

// idle is how long the watchdog sleeps without leases. A new lease wakes it.
const idle = time.Hour

// watchHeap is a container/heap of leases, ordered by when they have to be looked at. Code that
// changes that time has to move the lease.
type watchHeap []*Watch

func (h watchHeap) Len() int           { return len(h) }
func (h watchHeap) Less(i, j int) bool { return h[i].term.next() < h[j].term.next() }

func (h watchHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i+1, j+1
}

func (h *watchHeap) Push(x any) {
	w := x.(*Watch)
	*h = append(*h, w)
	w.place = len(*h)
}

func (h *watchHeap) Pop() any {
	old := *h
	w := old[len(old)-1]
	old[len(old)-1] = nil // otherwise the array keeps it from the garbage collector
	*h = old[:len(old)-1]
	w.place = 0
	return w
}
