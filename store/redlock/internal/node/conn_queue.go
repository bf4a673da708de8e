package node

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/internal/hooked"
	"github.com/keyturn/keyturn/internal/waitloop"
)

// batch is how many calls go into one pipeline at most. More would keep other clients waiting.
const batch = 128

// connQueue sends calls in order, on one connection. Its goroutine runs while there are calls.
type connQueue struct {
	node *Node

	mu      sync.Mutex
	queue   []*Call
	running bool

	// The goroutine's alone:
	conn   *redis.Conn
	client hooked.Client // over conn
	runID  string
	losses int64 // of the node when conn was made
}

func (l *connQueue) put(c *Call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = append(l.queue, c)
	if !l.running {
		l.running = true
		l.node.cfg.Go(l.run)
	}
}

func (l *connQueue) run() {
	for calls := l.take(); len(calls) > 0; calls = l.take() {
		l.send(calls)
	}
}

// take returns the next calls. If there are none, the goroutine ends.
func (l *connQueue) take() []*Call {
	l.mu.Lock()
	defer l.mu.Unlock()
	calls := l.queue
	if len(calls) > batch {
		calls, l.queue = calls[:batch:batch], calls[batch:]
	} else {
		l.queue = nil
	}
	l.running = len(calls) > 0
	return calls
}

// waiting returns how many calls wait.
func (l *connQueue) waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.queue)
}

// drain returns the first n calls that wait.
func (l *connQueue) drain(n int) []*Call {
	l.mu.Lock()
	defer l.mu.Unlock()
	calls := l.queue[:n:n]
	l.queue = l.queue[n:]
	return calls
}

// send sends calls in one pipeline, and hands out the replies. A connection that was idle may have
// broken unnoticed. So if it closes, the calls are sent once more, on a new one.
func (l *connQueue) send(calls []*Call) {
	if calls = l.rested(inTime(calls)); len(calls) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), l.node.cfg.Timeout)
	defer cancel()
	idle, behind := l.conn != nil, l.waiting()
	lost, err := l.try(ctx, calls)
	if err != nil && idle && !timedOut(err) {
		behind = l.waiting()
		lost, err = l.try(ctx, lost)
	}
	if err == nil {
		l.node.answered()
		return
	}
	l.node.failed(err)
	// A dead node takes up to a second for each dial. The calls that waited behind them fail, too:
	// otherwise the queue would only grow. Those that were made since have a try of their own, because
	// the node may have come back after the dial began.
	for _, c := range append(lost, l.drain(behind)...) {
		l.unanswered(c, err)
	}
}

// rested waits until the node may be dialled. Calls that have only so much time are refused at once,
// because other nodes may have been asked in vain, too.
func (l *connQueue) rested(calls []*Call) (kept []*Call) {
	if l.conn != nil {
		return calls
	}
	left, why := l.node.resting()
	if why == nil {
		return calls
	}
	for _, c := range calls {
		if c.Until.IsZero() {
			kept = append(kept, c)
		} else {
			l.unanswered(c, why)
		}
	}
	if len(kept) > 0 {
		time.Sleep(left)
	}
	return kept
}

// try sends calls, and returns those that got no answer.
func (l *connQueue) try(ctx context.Context, calls []*Call) (lost []*Call, err error) {
	if err := l.connect(ctx); err != nil {
		return calls, err
	}
	missing, lost, err := l.pipeline(ctx, calls, false)
	if len(missing) > 0 && err == nil {
		_, lost, err = l.pipeline(ctx, missing, true)
	} else {
		lost = append(lost, missing...)
	}
	for _, c := range lost {
		c.repeated = true // if it is sent again
	}
	if err != nil {
		l.node.losses.Add(1)
		l.hangUp()
	}
	return lost, err
}

// inTime returns the calls that are not too late, and refuses the others.
func inTime(calls []*Call) []*Call {
	now := time.Now()
	var kept []*Call
	for _, c := range calls {
		if !c.Until.IsZero() && now.After(c.Until) {
			c.Done(nil, ErrLate)
			continue
		}
		kept = append(kept, c)
	}
	return kept
}

// unanswered ends a try of a call.
func (l *connQueue) unanswered(c *Call, err error) {
	c.Done(nil, err)
	n := l.node
	if !time.Now().Before(c.Again) || n.owed.Load() >= mostOwed {
		return
	}
	n.owed.Add(1)
	again := *c
	again.Done = func(any, error) {}
	n.cfg.Go(func() {
		defer n.owed.Add(-1)
		if !waitloop.Sleep(n.cfg.Life, repeat) {
			again.Again = time.Time{}
		}
		l.put(&again)
	})
}
