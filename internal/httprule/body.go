package httprule

import (
	"errors"
	"io"
	"math"
	"net/http"
	"sync"
)

// spooledBody is a request's body that is read from the client once and can be
// begun again: what is read before rewind is kept for the handler.
//
// A handler may leave a goroutine behind that goes on reading. So what is kept
// is touched under a lock, and is out of reach after end.
type spooledBody struct {
	source io.ReadCloser
	limit  int64 // of what may be kept

	mu      sync.Mutex // never held while the client is waited for
	keeping bool
	reading bool // from source, into kept
	closed  bool
	kept    spool
	first   *[firstSize]byte // kept's memory, until it grows
	next    int64            // the reader's place
	end     error            // of source; it stays
}

// firstSize is enough for most bodies of APIs, which then cost no allocation.
const firstSize = 4 << 10

var firsts = sync.Pool{New: func() any { return new([firstSize]byte) }}

// begin takes the place of source.
func (b *spooledBody) begin(source io.ReadCloser, limit int64) {
	b.source, b.limit, b.keeping = source, limit, true
}

// Read gives what was kept, then what is left.
func (b *spooledBody) Read(p []byte) (int, error) {
	for len(p) > 0 {
		n, known, err := b.again(p)
		if known {
			return n, err
		}
		if !b.keeping {
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

// again reads what needs no client; known is false if there is no such thing.
func (b *spooledBody) again(p []byte) (n int, known bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return 0, true, http.ErrBodyReadAfterClose
	}
	if b.next < b.kept.size {
		n, err = b.kept.readAt(p, b.next)
		b.next += int64(n)
		return n, true, err
	}
	return 0, b.end != nil, b.end
}

// more reads from the client what its next packet has, and keeps it. It takes no
// more than atMost, as the rest may be the handler's to read.
func (b *spooledBody) more(atMost int64) {
	b.mu.Lock()
	b.reading = true
	if b.first == nil && b.kept.size == 0 { // not before: many keys are made without the body
		b.first = firsts.Get().(*[firstSize]byte)
		b.kept.memory = b.first[:0]
	}
	b.mu.Unlock()

	_, failed, end := b.kept.readFrom(b.source, min(atMost, b.limit-b.kept.size+1))

	b.mu.Lock()
	defer b.mu.Unlock()
	b.reading = false
	switch {
	case b.kept.size > b.limit:
		b.end = &http.MaxBytesError{Limit: b.limit}
	case failed != nil:
		b.end = failed
	case end != nil:
		b.end = end
	}
}

// fill reads all that the client has to send. It returns a *http.MaxBytesError,
// a *SpoolError, or what source said.
func (b *spooledBody) fill() error {
	for b.end == nil {
		b.more(math.MaxInt64)
	}
	if b.end != io.EOF {
		return b.end
	}
	return nil
}

// rewind begins again at a place, for the handler, and keeps nothing more.
func (b *spooledBody) rewind(to int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.keeping, b.next = false, to
}

// overLimit reports whether a read went past the limit, whatever became of its
// error: a key function may have swallowed it.
func (b *spooledBody) overLimit() error {
	if b.end == nil || b.end == io.EOF {
		return nil
	}
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(b.end, &tooLarge) {
		return tooLarge
	}
	return nil
}

// keepAgain is for another rule, inside of the one that begun: it keeps what it
// reads from start on, too. complete is false if it can't, as the client has more
// to say.
func (b *spooledBody) keepAgain() (start int64, complete bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.end != io.EOF || b.closed {
		return 0, false
	}
	b.keeping = true
	return b.next, true
}

// Close is the handler's. A key function that closes what it has read does not
// mean to take it from the handler.
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
	if b.reading { // a key function left a goroutine behind: it has first
		b.first = nil
	}
	b.kept.discard()
	if b.first != nil {
		firsts.Put(b.first)
		b.first = nil
	}
}
