package watchdog

import (
	"container/heap"
	"sync"
	"time"
)

// shard is a part of the leases, with a mutex of its own: callers of different keys
// rarely meet on one.
type shard struct {
	mu   sync.Mutex
	heap watchHeap
	look time.Time // when the watchdog looks here next; zero: now
	busy bool      // there were leases since the last look

	_ [64]byte // keeps the neighbour's mutex off this one's cache line
}

// The methods of shard need mu.

func (s *shard) add(w *Watch) {
	w.next = w.term.next()
	heap.Push(&s.heap, w)
	s.busy = true
}

// end ends a lease for good and takes it out.
func (s *shard) end(w *Watch, st state, why error) {
	w.term.end(st, why)
	w.free()
	if w.place > 0 {
		heap.Remove(&s.heap, w.place-1)
	}
}

// move finds a lease its new place, and says whether it is the first one now. A lease
// that is out stays out.
func (s *shard) move(w *Watch) (first bool) {
	if w.place == 0 {
		return false
	}
	w.next = w.term.next()
	heap.Fix(&s.heap, w.place-1)
	return w.place == 1
}

// suspect has every lease looked at now, wherever it stands.
func (s *shard) suspect(now time.Time) {
	for _, w := range s.heap {
		w.next = now
	}
}

// renewAll has every lease renewed now.
func (s *shard) renewAll(now time.Time) {
	for _, w := range s.heap {
		w.term.renewAt = now
		w.next = w.term.next()
	}
	heap.Init(&s.heap)
}

// collect takes out what is lost, and adds it and what is due to the round.
func (s *shard) collect(r *round) {
	for len(s.heap) > 0 {
		w := s.heap[0]
		t := &w.term
		if reason := t.overdue(r.now, &w.dog.clock); reason != "" {
			s.end(w, lost, w.holder.Loss(reason, nil))
			r.lost = append(r.lost, w)
			continue
		}
		renew := t.due(r.now) || len(r.due) > 0 && t.joins(r.now)
		if !renew && w.next.After(r.now) {
			break
		}
		if renew {
			r.due = append(r.due, w.request(r.now, change{}))
		}
		s.move(w)
	}
}

// rest says when to look again. With leases the heart beats, and once more when the
// heap has run empty: a caller who takes one lease after the other would otherwise wake
// the goroutine for each, which costs more than the lease. A look that another shard
// has asked for does not count as that beat.
func (s *shard) rest(now time.Time) time.Time {
	switch {
	case len(s.heap) > 0:
		s.look = now.Add(min(s.heap[0].next.Sub(now), heartbeat))
	case s.busy:
		s.look = now.Add(heartbeat)
	case !s.look.After(now):
		s.look = now.Add(idle)
	}
	s.busy = false
	return s.look
}

// idle is how long the watchdog sleeps without leases. Start wakes it.
const idle = time.Hour

// watchHeap is a container/heap of leases by next.
type watchHeap []*Watch

func (h watchHeap) Len() int           { return len(h) }
func (h watchHeap) Less(i, j int) bool { return h[i].next.Before(h[j].next) }

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
	old[len(old)-1] = nil // or the array keeps it from the garbage collector
	*h = old[:len(old)-1]
	w.place = 0
	return w
}
