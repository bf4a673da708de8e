package node

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/internal/hooked"
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

func timedOut(err error) bool {
	var t interface{ Timeout() bool }
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &t) && t.Timeout()
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

// connect makes a connection if there is none. A connection ends with the server's process, so the
// run id stays true for as long as the connection lasts.
func (l *connQueue) connect(ctx context.Context) error {
	losses := l.node.losses.Load()
	if l.conn != nil && l.losses == losses {
		return nil
	}
	// If the other connQueue has lost its connection, this one is likely to be dead as well, and the next
	// calls would be lost with it.
	l.hangUp()

	// Every connection that is idle in the client's pool may have broken unnoticed. Each try removes
	// one that has. After the last of them the client makes a new one.
	broken := l.node.cfg.Client.PoolStats().IdleConns
	err := l.dial(ctx)
	for ; err != nil && !timedOut(err) && broken > 0; broken-- {
		err = l.dial(ctx)
	}
	l.losses = losses
	return err
}

// dial takes a connection from the client's pool and asks who answers.
func (l *connQueue) dial(ctx context.Context) error {
	l.client, l.conn = hooked.OnConn(l.node.cfg.Client, l.node.cfg.Timeout)
	id, err := runID(ctx, l.client)
	if err == nil {
		err = l.node.cfg.Met(id)
	}
	if err != nil {
		l.hangUp()
		return err
	}
	l.runID = id
	return nil
}

func (l *connQueue) hangUp() {
	if l.conn != nil {
		_ = l.conn.Close() // gives it back to the client's pool
		l.conn = nil
	}
}

// pipeline sends calls by the names of their scripts, or with the scripts' text. lost are those without
// an answer. missing are those whose scripts the server does not know, which it has not run, and the
// calls behind them for the same lock: a vote that is taken back before it is given would stay.
func (l *connQueue) pipeline(ctx context.Context, calls []*Call, text bool) (missing, lost []*Call, broken error) {
	cmds := make([]*redis.Cmd, len(calls))
	for i, c := range calls {
		cmds[i] = redis.NewCmd(ctx, c.command(text, l.runID)...)
	}
	pipe := l.client.Pipeline()
	for _, cmd := range cmds {
		_ = pipe.Process(ctx, cmd) // only queues it
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	for i, c := range calls {
		reply, err := cmds[i].Result()
		switch {
		case err == nil && slices.ContainsFunc(missing, c.sameLock):
			c.repeated = true
			missing = append(missing, c)
		case err == nil && c.repeated && c.Certain != nil && !c.Certain(reply):
			c.Done(nil, errLost) // the first try may have done it
		case err == nil:
			c.Done(reply, nil)
		case !fromServer(err):
			lost, broken = append(lost, c), err
		case strings.HasPrefix(err.Error(), "NOSCRIPT") && !text:
			missing = append(missing, c)
		default:
			c.Done(nil, err)
		}
	}
	return missing, lost, broken
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
		timer := time.NewTimer(repeat)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-n.cfg.Life.Done():
			again.Again = time.Time{}
		}
		l.put(&again)
	})
}

// sameLock reports whether both calls are for one lock.
func (c *Call) sameLock(other *Call) bool {
	return len(c.Keys) > 0 && len(other.Keys) > 0 && c.Keys[0] == other.Keys[0]
}

// fromServer reports whether err is an answer.
func fromServer(err error) bool {
	var answer redis.Error
	return errors.As(err, &answer)
}

// command returns the words of the command.
func (c *Call) command(text bool, runID string) []any {
	words := make([]any, 0, 4+len(c.Keys)+len(c.Args))
	if text {
		words = append(words, "eval", c.Script.Text)
	} else {
		words = append(words, "evalsha", c.Script.SHA)
	}
	words = append(words, len(c.Keys))
	for _, k := range c.Keys {
		words = append(words, k)
	}
	words = append(words, c.Args...)
	if c.RunID {
		words = append(words, runID)
	}
	return words
}
