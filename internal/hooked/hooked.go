// Package hooked makes clients with a timeout of their own that keep the hooks of the caller's
// client.
//
// go-redis has one way to another timeout: [redis.Client.WithTimeout]. From v9.16 on, the client that
// it returns has lost its hooks, so the caller's tracing and metrics would not see what a store sends
// through it. The connections of [redis.Client.Conn] have a copy of the hooks in these versions. So a
// connection, which is never used as one, carries each command through the hooks, and a last hook
// hands the command to the client with the other timeout.
//
// A client made here has the hooks that the caller's client has at that moment.
package hooked

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// Client is a client of go-redis, as far as stores need it. It is safe for concurrent use.
type Client interface {
	redis.Cmdable
	Process(ctx context.Context, cmd redis.Cmder) error
}

// WithTimeout returns a client with c's hooks and connections whose reads and writes take d at most.
func WithTimeout(c *redis.Client, d time.Duration) Client {
	short := c.WithTimeout(d)
	if onClient() {
		return short
	}
	return through(c, short)
}

// OnConn returns the same over a connection of its own, which the caller closes.
func OnConn(c *redis.Client, d time.Duration) (Client, *redis.Conn) {
	conn := c.WithTimeout(d).Conn()
	if onConn() {
		return conn, conn
	}
	return through(c, conn), conn
}

// through returns a client with c's hooks that sends commands through to.
func through(c *redis.Client, to Client) Client {
	carrier := c.Conn() // it takes no connection, because no command gets past its last hook
	carrier.AddHook(detour{to})
	return carrier
}

// detour is a hook that sends commands elsewhere.
type detour struct{ to Client }

func (detour) DialHook(next redis.DialHook) redis.DialHook { return next }

func (d detour) ProcessHook(redis.ProcessHook) redis.ProcessHook { return d.to.Process }

func (d detour) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		pipe := d.to.Pipeline()
		for _, cmd := range cmds {
			_ = pipe.Process(ctx, cmd) // only queues it
		}
		_, err := pipe.Exec(ctx)
		return err
	}
}
