package scenario

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/keyturn/keyturn/proof/bench/fleet"
	"github.com/keyturn/keyturn/proof/bench/lock"
)

// task is the first message to a child. Orders follow.
type task struct {
	System string
	Config lock.Config
	Key    string
	Warm   time.Duration
	Span   time.Duration
}

// The orders to a child, each answered once it is done.
const (
	orderLoad   = "load"   // run the task's load
	orderLock   = "lock"   // lock the key
	orderUnlock = "unlock" // unlock it
)

// answer is a child's reply to the task, and to each order.
type answer struct {
	Error  string  `json:",omitempty"`
	At     int64   `json:",omitempty"` // UnixNano: when it had the lock, or when it began to release it
	Report *report `json:",omitempty"`
}

// Child does what the parent says. It returns the exit code.
func Child() int { return fleet.Serve(serve) }

func serve(ctx context.Context, messages <-chan json.RawMessage, send func(any) error) (err error) {
	var t task
	if err := json.Unmarshal(<-messages, &t); err != nil {
		return err
	}
	l, err := lock.Open(t.System, t.Config)
	if err != nil {
		return err
	}
	defer closing(&err, l)
	c := &child{task: t, locker: l}
	reply := answer{}
	for {
		if err := send(reply); err != nil {
			return err
		}
		message, ok := <-messages
		if !ok {
			if c.unlock == nil {
				return nil
			}
			return c.unlock(context.WithoutCancel(ctx)) // Close would wait for it
		}
		var order string
		if err := json.Unmarshal(message, &order); err != nil {
			return err
		}
		if reply, err = c.obey(ctx, order); err != nil {
			reply = answer{Error: err.Error()}
		}
	}
}

// child is a process that does one task.
type child struct {
	task   task
	locker lock.Locker
	unlock lock.Unlock // nil: it does not hold the key
}

func (c *child) obey(ctx context.Context, order string) (a answer, err error) {
	switch order {
	case orderLoad:
		did, err := load{c.task.Config.Callers, c.task.Warm, c.task.Span}.run(ctx, func(ctx context.Context, _ int) (time.Duration, error) {
			waited, _, err := pair(ctx, c.locker, c.task.Key)
			return waited, err
		})
		if errors.Is(err, errNothing) {
			err = nil // the other goroutines may have succeeded
		}
		return answer{Report: &did}, err
	case orderLock:
		c.unlock, err = c.locker.Lock(ctx, c.task.Key)
		return answer{At: time.Now().UnixNano()}, err
	case orderUnlock:
		unlock := c.unlock
		c.unlock = nil
		a.At = time.Now().UnixNano()
		return a, unlock(ctx)
	}
	return a, errors.New("no such order: " + order)
}
