package core

import (
	"context"
	"hash/maphash"
	"sync"
	"sync/atomic"
)

// lifecycle knows whether the engine is open and who still works with it.
type lifecycle struct {
	ending      context.Context // ends when Close begins, and ends all waits
	cancelWaits context.CancelFunc
	tidying     sync.WaitGroup // goroutines that give back late grants

	seed      maphash.Seed
	_         [64]byte // keeps what all callers read off the first register's cache line
	registers [registerCount]register

	closing atomic.Bool   // Close has begun
	busy    atomic.Int32  // number of registers that are not empty yet, since then
	idle    chan struct{} // closed when all of them are empty
	done    chan struct{} // closed when Close has finished
	err     error         // what Close returns
}

// register has the acquisitions under way and the leases of some keys. There are several
// registers, so that callers of different keys rarely meet on one mutex.
type register struct {
	life *lifecycle

	mu     sync.Mutex
	active int       // number of acquisitions under way
	held   leaseList // leases that are not released yet
	closed bool      // callers are refused

	_ [64]byte // keeps the next register's mutex off this one's cache line
}

const registerCount = 32

func (lc *lifecycle) init() {
	lc.ending, lc.cancelWaits = context.WithCancel(context.Background())
	lc.idle, lc.done = make(chan struct{}), make(chan struct{})
	lc.seed = maphash.MakeSeed()
	for i := range lc.registers {
		lc.registers[i].life = lc
	}
}

// register returns the register for key.
func (lc *lifecycle) register(key string) *register {
	return &lc.registers[maphash.String(lc.seed, key)%registerCount]
}

// close refuses callers from now on, and reports whether this is the first call. The channel
// idle is closed when everybody has left.
func (lc *lifecycle) close() (first bool) {
	if !lc.closing.CompareAndSwap(false, true) {
		return false
	}
	lc.busy.Store(registerCount)
	for i := range lc.registers {
		lc.registers[i].close()
	}
	return true
}

// held returns every lease that is not released yet.
func (lc *lifecycle) held() (all []*Lease) {
	for i := range lc.registers {
		all = lc.registers[i].appendHeld(all)
	}
	return all
}

// enter registers an acquisition. If it returns nil, the caller owes a leave.
func (r *register) enter() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return ErrClosed
	}
	r.active++
	return nil
}

// leave ends an acquisition.
func (r *register) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.active--
	r.signal()
}

// hold registers a lease, unless the engine was closed meanwhile. The holder then owes a
// forget.
func (r *register) hold(l *Lease) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return ErrClosed
	}
	r.held.add(l)
	return nil
}

// forget removes a lease whose holder no longer needs it.
func (r *register) forget(l *Lease) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held.remove(l)
	r.signal()
}

func (r *register) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	r.signal()
}

// signal tells a waiting Close that nobody is left here, and so once: nobody comes any more. Needs mu.
func (r *register) signal() {
	if !r.closed || r.active > 0 || r.held.n > 0 {
		return
	}
	if r.life.busy.Add(-1) == 0 {
		close(r.life.idle)
	}
}

func (r *register) appendHeld(all []*Lease) []*Lease {
	r.mu.Lock()
	defer r.mu.Unlock()
	for l := r.held.first; l != nil; l = l.next {
		all = append(all, l)
	}
	return all
}

// leaseList is a list of leases without an order. A map would take longer than everything else
// that is done here, and more memory than two pointers in each lease.
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
