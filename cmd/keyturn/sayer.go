package main

import (
	"bytes"
	"fmt"
	"io"
	"sync/atomic"
	"time"
)

// sayer writes what people are told, in order, on a goroutine of its own. A program under a lease must not wait for
// somebody to read that: it could not be ended in time, and its key would stay held.
type sayer struct {
	to      io.Writer
	texts   chan text
	dropped atomic.Int64 // texts without room, which nobody was told of
	over    chan struct{}
}

// text is what a call of Write has said or, with a channel, the question whether all before it is written.
type text struct {
	said    []byte
	written chan struct{}
}

// mostTexts is how many texts wait for a reader: all there are in a call of the command, except with -v.
const mostTexts = 1000

// lastWords is how long the command stays for a reader at its end.
const lastWords = time.Second

// newSayer starts the goroutine. It ends with end, or with the process if a write never returns.
func newSayer(to io.Writer) *sayer {
	s := &sayer{to: to, texts: make(chan text, mostTexts), over: make(chan struct{})}
	go s.run()
	return s
}

// Write implements io.Writer. It never waits, and never fails.
func (s *sayer) Write(p []byte) (int, error) {
	select {
	case s.texts <- text{said: bytes.Clone(p)}:
	default:
		s.dropped.Add(1)
	}
	return len(p), nil
}

func (s *sayer) run() {
	for {
		select {
		case t := <-s.texts:
			s.write(t)
		case <-s.over:
			return
		}
	}
}

// write writes a text, and after the last one how many were dropped: all that waited then were said before those.
func (s *sayer) write(t text) {
	if t.written == nil {
		_, _ = s.to.Write(t.said)
	}
	if len(s.texts) == 0 {
		if n := s.dropped.Swap(0); n > 0 {
			fmt.Fprintf(s.to, "keyturn: nobody read the messages, so %d more were dropped\n", n)
		}
	}
	if t.written != nil {
		close(t.written)
	}
}

// flush waits until all is written that was said before, or until the time is over.
func (s *sayer) flush(most time.Duration) {
	over, written := time.After(most), make(chan struct{})
	select {
	case s.texts <- text{written: written}:
	case <-over:
		return
	}
	select {
	case <-written:
	case <-over:
	}
}

// end is flush at the end of the command. Nothing is written after it.
func (s *sayer) end() {
	s.flush(lastWords)
	close(s.over)
}
