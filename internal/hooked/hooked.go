// Package hooked sends commands with a timeout of their own through all hooks of the caller's
// client.
//
// go-redis has one way to another timeout: [redis.Client.WithTimeout]. From v9.16 on the client
// that it returns has lost its hooks, so the caller's tracing and metrics would not see what a
// store sends through it. go-redis has no way to ask for the hooks of a client either. So a [Route]
// sends the commands with the caller's client, and a hook that stands behind the caller's own hands
// them to the client with the other timeout.
//
// Hooks that are added to a client after its first [Route] was made do not see its commands.
package hooked

import (
	"context"
	"runtime"
	"sync"
	"time"
	"weak"

	"github.com/redis/go-redis/v9"
)

// Commander is the part of a client or connection that a [Route] needs.
type Commander interface {
	redis.Cmdable
	Process(ctx context.Context, cmd redis.Cmder) error
}

// Route is a way to a server. Commands take it if they are sent with its Client and a context of
// [Route.Context]. It is safe for concurrent use.
type Route struct {
	Client Commander
	behind *Route // where Client's last hook sends the commands; nil: Client sends them itself
}

// WithTimeout returns a route through c's hooks on which reads and writes take d at most.
func WithTimeout(c *redis.Client, d time.Duration) *Route {
	return through(c, c.WithTimeout(d), onClient())
}

// OnConn returns the same over a connection of its own, which the caller closes.
func OnConn(c *redis.Client, d time.Duration) (*Route, *redis.Conn) {
	conn := c.WithTimeout(d).Conn()
	return through(c, conn, onConn()), conn
}

// through returns a route through c's hooks to on, which may still have them.
func through(c *redis.Client, on Commander, hooked bool) *Route {
	if hooked {
		return &Route{Client: on}
	}
	bridge(c)
	return &Route{Client: c, behind: &Route{Client: on}}
}

// ThroughCluster returns a route through c's hooks to r, which leads to one of its nodes.
func ThroughCluster(c *redis.ClusterClient, r *Route) *Route {
	bridge(c)
	return &Route{Client: c, behind: r}
}

// way is the key of the value of a context that says where a [Route] leads.
type way struct{}

// Context returns ctx for a command that takes the route.
func (r *Route) Context(ctx context.Context) context.Context {
	if r.behind == nil {
		return ctx
	}
	return context.WithValue(ctx, way{}, r.behind)
}

// behindOf returns where the last hook of a client sends a command with ctx; nil: nowhere else.
func behindOf(ctx context.Context) *Route {
	r, _ := ctx.Value(way{}).(*Route)
	return r
}

// turnoff is the hook that stands behind the caller's hooks.
type turnoff struct{}

func (turnoff) DialHook(next redis.DialHook) redis.DialHook { return next }

func (turnoff) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if r := behindOf(ctx); r != nil {
			return r.Client.Process(r.Context(ctx), cmd)
		}
		return next(ctx, cmd)
	}
}

func (turnoff) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		r := behindOf(ctx)
		if r == nil {
			return next(ctx, cmds)
		}
		ctx = r.Context(ctx)
		pipe := r.Client.Pipeline()
		for _, cmd := range cmds {
			_ = pipe.Process(ctx, cmd) // only queues it
		}
		_, err := pipe.Exec(ctx)
		return err
	}
}

// bridged are the clients that have the hook, by weak pointers: a client that nobody uses any more
// is forgotten.
var bridged struct {
	sync.Mutex
	clients map[any]struct{}
}

// bridge gives c the hook, once: a client may have many stores, and a hook can't be removed.
func bridge[C redis.Client | redis.ClusterClient, P interface {
	*C
	AddHook(redis.Hook)
}](c P,
) {
	bridged.Lock()
	defer bridged.Unlock()
	key := any(weak.Make((*C)(c)))
	if _, has := bridged.clients[key]; has {
		return
	}
	if bridged.clients == nil {
		bridged.clients = make(map[any]struct{})
	}
	bridged.clients[key] = struct{}{}
	c.AddHook(turnoff{})
	runtime.AddCleanup((*C)(c), forget, key)
}

func forget(key any) {
	bridged.Lock()
	defer bridged.Unlock()
	delete(bridged.clients, key)
}
