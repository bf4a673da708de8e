// Package gateway is the entry for clients: HTTP with Echo. It calls the service replicas over
// gRPC, and enqueues messages for them.
package gateway

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/hibiken/asynq"
	"github.com/labstack/echo/v4"

	"github.com/keyturn/keyturn/examples/im/impb"
	"github.com/keyturn/keyturn/examples/im/node"
	"github.com/keyturn/keyturn/middleware/echo"
	"github.com/keyturn/keyturn/middleware/http"
)

// newEcho makes the routes. Here the status route gets its lock: updates of one user take
// turns, whichever gateway they come to.
//
// The services lock the other routes.
func newEcho(n *node.Node, h *handlers) (*echo.Echo, error) {
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	// Without timeouts, slow clients keep their connections for as long as they like. The write
	// timeout begins with the request, so it includes the wait for the lock.
	e.Server.ReadTimeout, e.Server.WriteTimeout = 10*time.Second, time.Minute
	e.Use(answers) // and outside of it otelecho, for spans: docs/observability.md

	if n.Locks == nil {
		e.PUT("/users/:id/status", h.setStatus)
	} else {
		locks, err := lockecho.New(n.Locks, lockhttp.Serialize("PUT /users/:id/status", "user:status:{path.id}"))
		if err != nil {
			return nil, err
		}
		e.PUT("/users/:id/status", h.setStatus, locks.Middleware)
	}
	e.PUT("/groups/:id/members/:user", h.join)
	e.DELETE("/groups/:id/members/:user", h.leave)
	e.POST("/messages", h.deliver)
	return e, nil
}

// Serve runs a gateway in front of the services at these addresses, until ctx ends. It calls
// ready with its own address.
func Serve(ctx context.Context, n *node.Node, services []string, ready func(addr string)) error {
	conn, err := dial(services)
	if err != nil {
		return err
	}
	defer conn.Close()
	e, err := newEcho(n, &handlers{
		users:  impb.NewUsersClient(conn),
		groups: impb.NewGroupsClient(conn),
		tasks:  asynq.NewClientFromRedisClient(n.Redis),
		queue:  n.Queue(),
	})
	if err != nil {
		return err
	}
	if e.Listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return err
	}
	ready(e.Listener.Addr().String())

	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		stopped <- e.Shutdown(ctx)
	})
	if err := e.Start(""); !errors.Is(err, http.ErrServerClosed) {
		stop()
		return err
	}
	return <-stopped
}
