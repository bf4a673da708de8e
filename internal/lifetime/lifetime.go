// Package lifetime is about the end of a store: Close refuses new calls, and waits for the calls and
// goroutines that are under way.
package lifetime

import (
	"fmt"
	"sync"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// closeTimeout bounds [Lifetime.Drain]. A process that shuts down must not hang because the server
// of its locks does.
const closeTimeout = 5 * time.Second

// Lifetime counts what a store has under way. Its zero value is ready for use. It is safe for
// concurrent use.
type Lifetime struct {
	mu    sync.Mutex
	ended chan struct{} // from the first Close on; closed when that has finished
	tasks sync.WaitGroup
	err   error // what Close returns
}

// Enter registers a call. If it returns nil, the caller owes a [Lifetime.Leave]. Otherwise the
// store has closed, and the error is [driver.ErrClosed].
func (l *Lifetime) Enter() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended != nil {
		return driver.ErrClosed
	}
	l.tasks.Add(1)
	return nil
}

// Leave ends a call.
func (l *Lifetime) Leave() { l.tasks.Done() }

// Go runs f on a goroutine that Close waits for. It is for the constructor of the store, for a call
// that has entered, for the goroutines of Go itself, and for the function that Close runs:
// otherwise the store could have ended before f starts.
func (l *Lifetime) Go(f func()) { l.tasks.Go(f) }

// Close refuses calls from now on, and returns what end returns. A second Close waits for the first
// and returns the same error.
func (l *Lifetime) Close(end func() error) error {
	l.mu.Lock()
	ended := l.ended
	if ended == nil {
		l.ended = make(chan struct{})
	}
	l.mu.Unlock()
	if ended != nil {
		<-ended
		return l.err
	}
	l.err = end()
	close(l.ended)
	return l.err
}

// Drain waits for what is under way, for 5 s at most. If that was not enough, the error says so in
// the name of the store. last, if it is not nil, runs after the last of what was under way, also if
// Drain has given up by then. Drain is for the function that Close runs.
func (l *Lifetime) Drain(store string, last func()) error {
	quiet := make(chan struct{})
	go func() {
		defer close(quiet)
		l.tasks.Wait()
		if last != nil {
			last()
		}
	}()
	select {
	case <-quiet:
		return nil
	case <-time.After(closeTimeout):
		return fmt.Errorf("%s: closed, but requests were unanswered for %v", store, closeTimeout)
	}
}
