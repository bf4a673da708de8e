package sim

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// network carries what processes and servers write to each other. Each packet has a delay that depends
// on the seed, and arrives at a moment at which nothing else does. So connections overtake each other,
// and one event follows the other.
type network struct {
	chance chance
	met    map[string]*atomic.Int64 // by the name of a fault, how many packets it has met

	mu    sync.Mutex
	taken map[time.Time]bool // moments at which something happens
}

func newNetwork(c chance) *network {
	met := map[string]*atomic.Int64{"silence": {}, "replies": {}, "delay": {}, "fade": {}, "late": {}, "duplicate": {}}
	return &network{chance: c, met: met, taken: map[time.Time]bool{}}
}

// meets notes that a packet meets a fault, if it does.
func (n *network) meets(fault string, does bool) bool {
	if does {
		n.met[fault].Add(1)
	}
	return does
}

// at does something after a delay, at a moment of its own.
func (n *network) at(when time.Time, do func()) time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	for n.taken[when] {
		when = when.Add(time.Nanosecond)
	}
	n.taken[when] = true
	time.AfterFunc(time.Until(when), func() {
		n.mu.Lock()
		delete(n.taken, when)
		n.mu.Unlock()
		do()
	})
	return when
}

// delay is how long a packet takes: mostly a fraction of a millisecond, and now and then much longer.
func delay(c chance) time.Duration {
	switch n := c.of(1).below(1000); {
	case n < 900:
		return c.of(2).between(20*time.Microsecond, 300*time.Microsecond)
	case n < 990:
		return c.of(2).between(300*time.Microsecond, 3*time.Millisecond)
	default:
		return c.of(2).between(3*time.Millisecond, 60*time.Millisecond)
	}
}

// way is how one process reaches one server. Faults of the network strike it.
type way struct {
	net  *network
	to   *host
	nr   uint64
	kept [][]byte // old requests, which may come again

	mu     sync.Mutex
	conns  map[*link]bool
	made   uint64
	gone   bool          // its process was killed
	silent bool          // nothing gets through
	mute   bool          // nothing gets back
	slow   time.Duration // for each packet
	tardy  time.Duration // for each answer, too
	late   time.Duration // for the next request
}

// dial connects a process with the server.
func (w *way) dial(ctx context.Context) (net.Conn, error) {
	w.mu.Lock()
	w.made++
	nr := w.made
	w.mu.Unlock()
	wait := delay(w.net.chance.of(2, w.nr, nr)) + w.to.pause()
	w.mu.Lock()
	wait += 2 * w.slow
	silent := w.silent
	w.mu.Unlock()
	if silent {
		wait = time.Hour
	}
	arrived := make(chan struct{})
	w.net.at(time.Now().Add(wait), func() { close(arrived) })
	select {
	case <-arrived:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gone || w.to.refuses() {
		return nil, &net.OpError{Op: "dial", Net: "sim", Err: syscall.ECONNREFUSED}
	}
	l := newLink(w, nr)
	w.conns[l] = true
	w.to.serve(l.there)
	return l.here, nil
}

// greet is dial for a client that holds a mutex until the server has answered it: in a bubble, time
// would stand still. So that takes no time, and either nothing of it gets lost, or it fails at once.
func (w *way) greet() (net.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.made++
	if w.gone || w.silent || w.mute || w.to.refuses() || w.to.pause() > 0 {
		return nil, &net.OpError{Op: "dial", Net: "sim", Err: syscall.ECONNREFUSED}
	}
	l := newLink(w, w.made)
	l.greets = true
	w.conns[l] = true
	w.to.serve(l.there)
	return l.here, nil
}

// cut breaks all connections, each of them somewhere in what is under way.
func (w *way) cut() {
	for _, l := range w.all() {
		l.cut()
	}
}

func (w *way) all() []*link {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []*link
	for l := range w.conns {
		all = append(all, l)
	}
	sortLinks(all)
	return all
}

// set changes what the network does to the packets of the way from now on.
func (w *way) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

// heal ends all faults but those of single connections. A connection that lost a packet never
// recovers: its streams would have a gap.
func (w *way) heal() {
	w.set(func() { w.silent, w.mute, w.slow, w.tardy, w.late = false, false, 0, 0, 0 })
}

// repeat sends an old request again, on a connection that nobody listens to.
func (w *way) repeat(c chance) {
	w.mu.Lock()
	if len(w.kept) == 0 || w.to.refuses() {
		w.mu.Unlock()
		return
	}
	request := w.kept[c.below(len(w.kept))]
	w.made++
	l := newLink(w, w.made)
	w.conns[l] = true
	w.mu.Unlock()
	w.to.serve(l.there)
	_, err := l.here.Write(request)
	w.net.meets("duplicate", err == nil)
	w.net.at(time.Now().Add(time.Second), func() { _ = l.here.Close() })
}

// mostKept is how many old requests there are.
const mostKept = 64

// sent notes a request, and returns how much later than others it arrives; lost: it does not.
func (w *way) sent(data []byte) (later time.Duration, lost bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gone || w.net.meets("silence", w.silent) {
		return 0, true
	}
	if w.to.writes(data) {
		if len(w.kept) == mostKept {
			w.kept = w.kept[1:]
		}
		w.kept = append(w.kept, data)
		later, w.late = w.late, 0
		w.net.meets("late", later > 0)
	}
	w.net.meets("delay", w.slow > 0)
	return later + w.slow, false
}

// answered is the same for an answer.
func (w *way) answered() (later time.Duration, lost bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.net.meets("fade", w.tardy > 0)
	return w.slow + w.tardy, w.gone || w.silent || w.net.meets("replies", w.mute)
}

func (w *way) closed(l *link) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.conns, l)
}

var errReset = errors.New("connection reset by the simulated network")
