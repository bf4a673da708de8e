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
	reading bool // source is being read into kept
	closed  bool
	kept    spool
	first   *[firstSize]byte // kept's first memory
	next    int64            // the reader's position
	end     error            // the error that ended source
}

// firstSize is enough for most bodies of APIs, which then cost no allocation.
const firstSize = 4 << 10

var firsts = sync.Pool{New: func() any { return new([firstSize]byte) }}

// begin makes b read from source and take its place.
func (b *spooledBody) begin(source io.ReadCloser, limit int64) {
	b.source, b.limit, b.keeping = source, limit, true
}

// Read returns what was kept, then the rest.
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

// again reads without the client. known is false if that is not possible.
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

// more reads the client's next packet and keeps it. It reads atMost bytes, because the rest may
// be for the handler to read.
func (b *spooledBody) more(atMost int64) {
	b.mu.Lock()
	b.reading = true
	if b.first == nil && b.kept.size == 0 { // not earlier: many keys are made without the body
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

// fill reads everything that the client sends. It returns a *http.MaxBytesError, a *SpoolError,
// or source's error.
func (b *spooledBody) fill() error {
	for b.end == nil {
		b.more(math.MaxInt64)
	}
	if b.end != io.EOF {
		return b.end
	}
	return nil
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
	if b.end == nil || b.end == io.EOF {
		return nil
	}
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(b.end, &tooLarge) {
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
	if b.reading { // a goroutine that a key function left behind still uses first
		b.first = nil
	}
	b.kept.discard()
	if b.first != nil {
		firsts.Put(b.first)
		b.first = nil
	}
}
