package redlock

import (
	"maps"
	"sync"
	"time"
)

const (
	// crowded is how long a key counts as contended after others were seen to wait for it.
	crowded = time.Second
	// mostCrowds bounds the memory. Keys beyond it are just not remembered.
	mostCrowds = 4096
)

// crowds are the keys that others wait for. A request for such a key needs the consent of its gate,
// where the waiters stand in line. Otherwise the process that has just released the key would nearly
// always win it again: its next request follows the release in the same pipeline, while a waiter
// needs half a round trip to learn of its turn.
type crowds struct {
	mu   sync.Mutex
	seen map[string]time.Time
}

func (c *crowds) note(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if c.seen == nil {
		c.seen = make(map[string]time.Time)
	}
	if len(c.seen) >= mostCrowds {
		maps.DeleteFunc(c.seen, func(_ string, at time.Time) bool { return now.Sub(at) > crowded })
		if len(c.seen) >= mostCrowds {
			return
		}
	}
	c.seen[key] = now
}

func (c *crowds) has(key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, ok := c.seen[key]
	if ok && time.Since(at) > crowded {
		delete(c.seen, key)
		return false
	}
	return ok
}

// owners makes the requests of one owner follow each other. Otherwise a repeated request, which
// overtakes the one that it repeats, could get another token.
type owners struct {
	mu   sync.Mutex
	busy map[string]chan struct{}
}

// take waits until no other request of owner is under way, or done is closed.
func (o *owners) take(owner string, done <-chan struct{}) bool {
	for {
		o.mu.Lock()
		other, ok := o.busy[owner]
		if !ok {
			if o.busy == nil {
				o.busy = make(map[string]chan struct{})
			}
			o.busy[owner] = make(chan struct{})
			o.mu.Unlock()
			return true
		}
		o.mu.Unlock()
		select {
		case <-other:
		case <-done:
			return false
		}
	}
}

func (o *owners) leave(owner string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.busy[owner])
	delete(o.busy, owner)
}
