package httprule

import (
	"errors"
	"io"
	"net/http"
)

// replayBody is a request's body that can be begun again: what is read before
// rewind, to derive the key, is kept for the handler.
type replayBody struct {
	io.Closer
	source  io.Reader // what is left of the body
	length  int64     // of all, as the request says; less than 0: it does not
	limit   int64     // of what may be kept
	keeping bool
	kept    []byte
	next    int   // the reader's place in kept
	end     error // of source; it stays
}

// prepared bounds what a Content-Length alone makes us set aside, before a byte
// of the body came.
const prepared = 64 << 10

// of makes the body of req one that can be begun again, and returns it; nil if req
// has none.
func (b *replayBody) of(req *http.Request, limit int64) *replayBody {
	if req.Body == nil || req.Body == http.NoBody {
		return nil
	}
	*b = replayBody{Closer: req.Body, source: req.Body, length: req.ContentLength, limit: limit, keeping: true}
	req.Body = b
	return b
}

// Read gives what was kept, then what is left.
func (b *replayBody) Read(p []byte) (int, error) {
	if b.next < len(b.kept) {
		n := copy(p, b.kept[b.next:])
		b.next += n
		return n, nil
	}
	if b.end != nil {
		return 0, b.end
	}
	n, err := b.source.Read(p)
	b.end = err
	if b.keeping {
		if int64(len(b.kept))+int64(n) > b.limit {
			b.end = &http.MaxBytesError{Limit: b.limit}
			return 0, b.end
		}
		if b.kept == nil { // not before: many keys are made without the body
			b.kept = make([]byte, 0, max(int64(n), min(b.length, b.limit, prepared)))
		}
		b.kept = append(b.kept, p[:n]...)
		b.next += n
	}
	return n, err
}

// all returns the whole body, or a *http.MaxBytesError.
func (b *replayBody) all() ([]byte, error) {
	if _, err := io.Copy(io.Discard, b); err != nil {
		return nil, err
	}
	return b.kept, nil
}

// rewind begins again, for the handler, and keeps nothing more.
func (b *replayBody) rewind() { b.keeping, b.next = false, 0 }

// overLimit reports whether a read went past the limit, whatever became of its
// error: a key function may have swallowed it.
func (b *replayBody) overLimit() error {
	if b.end == nil {
		return nil
	}
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(b.end, &tooLarge) {
		return tooLarge
	}
	return nil
}
