package httprule

import (
	"errors"
	"io"
	"math"
	"net/http"
	"sync"
)

// spooledBody is a request's body that is read from the client once and may be read again. It
// keeps what is read before rewind, for the handler.
//
// A handler may leave a goroutine behind that goes on reading. So what is kept is used under a
// mutex only, and cannot be reached after end.
type spooledBody struct {
	source io.ReadCloser
	limit  int64 // the number of bytes that may be kept

	mu      sync.Mutex // never held during a wait for the client
	keeping bool
	closed  bool
	kept    spool
	first   *[packetSize]byte // kept's first memory
	next    int64             // the reader's position
	end     error             // the error that ended source
}

// packetSize is enough for most bodies of APIs, which then cost no allocation.
const packetSize = 4 << 10

var packets = sync.Pool{New: func() any { return new([packetSize]byte) }}

// begin makes b read from source and take its place.
func (b *spooledBody) begin(source io.ReadCloser, limit int64) {
	b.source, b.limit, b.keeping = source, limit, true
	b.kept = spool{room: inMemory, dir: tempDir}
}

// Read returns what was kept, then the rest.
func (b *spooledBody) Read(p []byte) (int, error) {
	for len(p) > 0 {
		n, known, keeping, err := b.again(p)
		if known {
			return n, err
		}
		if !keeping {
			n, err := b.source.Read(p)
			b.mu.Lock()
			defer b.mu.Unlock()
			b.end = err
			return n, err
		}
		b.more(int64(len(p)))
	}
	return 0, nil
}

// again reads without the client. known is false if that is not possible.
func (b *spooledBody) again(p []byte) (n int, known, keeping bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return 0, true, false, http.ErrBodyReadAfterClose
	}
	if b.next < b.kept.size {
		n, err = b.kept.readAt(p, b.next)
		b.next += int64(n)
		return n, true, b.keeping, err
	}
	return 0, b.end != nil, b.keeping, b.end
}

// more reads the client's next packet and keeps it. It reads atMost bytes, because the rest may
// be for the handler to read. It reads into memory that is not kept's: the request may be over when
// the packet comes.
func (b *spooledBody) more(atMost int64) {
	b.mu.Lock()
	atMost = min(atMost, packetSize, b.limit-b.kept.size+1)
	b.mu.Unlock()
	packet := packets.Get().(*[packetSize]byte)
	n, end := b.source.Read(packet[:max(0, atMost)])

	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		b.end = http.ErrBodyReadAfterClose
	case b.end != nil: // another reader has found it
	default:
		b.end = b.keep(packet, n, end)
	}
	if packet != b.first {
		packets.Put(packet)
	}
}

// keep keeps the first n bytes of a packet. It returns the error that ends the body, nil for none.
func (b *spooledBody) keep(packet *[packetSize]byte, n int, end error) error {
	if b.first == nil {
		b.first, b.kept.memory = packet, packet[:0]
	}
	if err := b.kept.write(packet[:n]); err != nil {
		return err
	}
	if b.kept.size > b.limit {
		return &http.MaxBytesError{Limit: b.limit}
	}
	return end
}

// fill reads everything that the client sends. It returns a *http.MaxBytesError, a *SpoolError,
// or source's error.
func (b *spooledBody) fill() error {
	for b.ended() == nil {
		b.more(math.MaxInt64)
	}
	if end := b.ended(); end != io.EOF {
		return end
	}
	return nil
}

// ended returns the error that ended source, nil for none.
func (b *spooledBody) ended() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.end
}

// rewind goes back to a position, for the handler, and keeps nothing more. What is over the limit
// comes from the client: a rule that is a shadow does not refuse it, and any other does so before.
func (b *spooledBody) rewind(to int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.keeping, b.next = false, to
	if _, ours := b.end.(*http.MaxBytesError); ours {
		b.end = nil
	}
}

// overLimit returns an error if a read went over the limit, even if a key function swallowed
// that read's error.
func (b *spooledBody) overLimit() error {
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(b.ended(), &tooLarge) {
		return tooLarge
	}
	return nil
}

// keepAgain is for another rule, inside the one that called begin. It keeps what is read from
// start on, too. complete is false if it cannot, because the client has more to send.
func (b *spooledBody) keepAgain() (start int64, complete bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.end != io.EOF || b.closed {
		return 0, false
	}
	b.keeping = true
	return b.next, true
}

// Close is for the handler. A key function that closes the body after reading it does not mean
// to take it from the handler.
func (b *spooledBody) Close() error {
	b.mu.Lock()
	if b.keeping {
		b.mu.Unlock()
		return nil
	}
	b.closed = true
	b.mu.Unlock()
	return b.source.Close()
}

// discard frees what was kept.
func (b *spooledBody) discard() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.kept.discard()
	if b.first != nil {
		packets.Put(b.first)
		b.first = nil
	}
}
