package hooked

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Whether hooks survive WithTimeout, on a client and on a connection of it, depends on the version of
// go-redis that the program is built with.
var (
	onClient = sync.OnceValue(func() bool {
		return survive(func(c *redis.Client) Client { return c })
	})
	onConn = sync.OnceValue(func() bool {
		return survive(func(c *redis.Client) Client { return c.Conn() })
	})
)

// survive asks a client of its own, which is not allowed to connect. Its address is a number: for a name,
// such as that of the default, NewClient of later versions asks the resolver, and waits for the answer.
func survive(on func(*redis.Client) Client) bool {
	c := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379", Limiter: refusal{}, MaxRetries: -1})
	defer c.Close()
	var seen witness
	c.AddHook(&seen)
	ctx := context.Background()
	_ = on(c.WithTimeout(time.Second)).Process(ctx, redis.NewCmd(ctx, "ping"))
	return seen.called
}

// refusal is a limiter that allows nothing.
type refusal struct{}

func (refusal) Allow() error { return errors.New("hooked: no server") }

func (refusal) ReportResult(error) {}

// witness is a hook that answers commands itself, and knows that it was called.
type witness struct{ called bool }

func (*witness) DialHook(next redis.DialHook) redis.DialHook { return next }

func (w *witness) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(context.Context, redis.Cmder) error {
		w.called = true
		return nil
	}
}

func (*witness) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
