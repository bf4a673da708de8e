package sim

import (
	"bytes"
	"cmp"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"time"
)

// link is a connection: two streams.
type link struct {
	way         *way
	chance      chance
	nr          uint64
	here, there *end // the process's and the server's
	greets      bool // the server has not answered yet, and nothing takes time
}

func newLink(w *way, nr uint64) *link {
	l := &link{way: w, chance: w.net.chance.of(3, w.nr, nr), nr: nr}
	l.here, l.there = newEnd(l, 1), newEnd(l, 2)
	l.here.peer, l.there.peer = l.there, l.here
	return l
}

func sortLinks(all []*link) {
	slices.SortFunc(all, func(a, b *link) int { return cmp.Compare(a.nr, b.nr) })
}

// cut breaks the connection. What is under way arrives up to some byte.
func (l *link) cut() {
	l.here.breaks(l.chance.of(4))
	l.there.breaks(l.chance.of(5))
	l.way.closed(l)
}

// end is one end of a connection. Packets come to it from the other one.
type end struct {
	link *link
	peer *end
	side uint64

	mu       sync.Mutex
	buf      []byte   // arrived, and not read yet
	coming   [][]byte // under way
	packets  uint64   // how many have been sent to here
	next     time.Time
	err      error         // what reads return after buf
	lost     bool          // a packet was lost, so nothing arrives any more
	changed  chan struct{} // something has
	deadline time.Time     // of reads
}

func newEnd(l *link, side uint64) *end {
	return &end{link: l, side: side, changed: make(chan struct{}, 1)}
}

// Write implements net.Conn. It never blocks.
func (e *end) Write(p []byte) (int, error) {
	e.mu.Lock()
	err := e.err
	e.mu.Unlock()
	if err != nil {
		return 0, cmp.Or(notEOF(err), errReset)
	}
	e.peer.send(bytes.Clone(p))
	return len(p), nil
}

func notEOF(err error) error {
	if err == io.EOF {
		return nil
	}
	return err
}

// send puts a packet on its way to e.
func (e *end) send(data []byte) {
	l := e.link
	toServer := e == l.there
	var later time.Duration
	var lost bool
	if toServer {
		later, lost = l.way.sent(data)
		later += l.way.to.pause()
	} else {
		later, lost = l.way.answered()
		later += l.way.to.lag()
	}
	e.mu.Lock()
	if l.greets {
		e.buf = append(e.buf, data...)
		l.greets = toServer || !bytes.Contains(data, []byte("PONG\r\n"))
		e.mu.Unlock()
		e.wake()
		return
	}
	e.packets++
	if e.lost = e.lost || lost; e.lost || e.err != nil {
		e.mu.Unlock()
		return
	}
	when := time.Now().Add(delay(l.chance.of(e.side, e.packets)) + later)
	if !when.After(e.next) {
		when = e.next.Add(time.Nanosecond)
	}
	e.coming = append(e.coming, data)
	e.mu.Unlock()
	when = l.way.net.at(when, func() { e.arrive(toServer) })
	e.mu.Lock()
	e.next = when
	e.mu.Unlock()
}

// arrive takes the first packet that is under way.
func (e *end) arrive(toServer bool) {
	if toServer {
		e.link.way.to.tick()
	}
	e.mu.Lock()
	if len(e.coming) > 0 && e.err == nil {
		e.buf = append(e.buf, e.coming[0]...)
		e.coming = e.coming[1:]
	}
	e.mu.Unlock()
	e.wake()
}

// breaks has what is under way to e arrive up to some byte, and then an error.
func (e *end) breaks(c chance) {
	e.mu.Lock()
	rest := bytes.Join(e.coming, nil)
	switch c.of(1).below(3) {
	case 0:
		rest = nil
	case 1:
		rest = rest[:c.of(2).below(len(rest)+1)]
	}
	if e.err == nil {
		e.buf, e.err = append(e.buf, rest...), errReset
	}
	e.coming = nil
	e.mu.Unlock()
	e.wake()
}

func (e *end) wake() {
	select {
	case e.changed <- struct{}{}:
	default:
	}
}

// Read implements net.Conn.
func (e *end) Read(p []byte) (int, error) {
	for {
		e.mu.Lock()
		n, err, deadline := copy(p, e.buf), e.err, e.deadline
		e.buf = e.buf[n:]
		e.mu.Unlock()
		switch {
		case n > 0:
			return n, nil
		case err != nil:
			return 0, err
		case !deadline.IsZero() && !time.Now().Before(deadline):
			return 0, os.ErrDeadlineExceeded
		}
		e.wait(deadline)
	}
}

// wait waits until something has changed, or the deadline is over.
func (e *end) wait(deadline time.Time) {
	if deadline.IsZero() {
		<-e.changed
		return
	}
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case <-e.changed:
	case <-timer.C:
	}
}

// Close implements net.Conn. The other end hears of it when all that is under way has arrived.
func (e *end) Close() error {
	e.mu.Lock()
	was := e.err
	e.err, e.buf, e.coming = net.ErrClosed, nil, nil
	e.mu.Unlock()
	e.wake()
	if was == net.ErrClosed {
		return nil
	}
	e.link.way.closed(e.link)
	p := e.peer
	p.mu.Lock()
	p.packets++
	when := time.Now().Add(delay(e.link.chance.of(p.side, p.packets)))
	if !when.After(p.next) {
		when = p.next.Add(time.Nanosecond)
	}
	p.mu.Unlock()
	e.link.way.net.at(when, func() {
		p.mu.Lock()
		if p.err == nil {
			p.err = io.EOF
		}
		p.mu.Unlock()
		p.wake()
	})
	return nil
}

// LocalAddr and the following methods complete net.Conn. Writes never block, so they need no deadline.
func (e *end) LocalAddr() net.Addr { return address{} }

// RemoteAddr implements net.Conn.
func (e *end) RemoteAddr() net.Addr { return address{} }

// SetDeadline implements net.Conn.
func (e *end) SetDeadline(t time.Time) error { return e.SetReadDeadline(t) }

// SetReadDeadline implements net.Conn.
func (e *end) SetReadDeadline(t time.Time) error {
	e.mu.Lock()
	e.deadline = t
	e.mu.Unlock()
	e.wake()
	return nil
}

// SetWriteDeadline implements net.Conn.
func (e *end) SetWriteDeadline(time.Time) error { return nil }

type address struct{}

func (address) Network() string { return "sim" }
func (address) String() string  { return "server" }
