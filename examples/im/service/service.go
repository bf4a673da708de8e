// Package service is a replica of the IM service: user status and group
// membership over gRPC, messages from an asynq queue.
package service

import (
	"context"
	"net"

	"google.golang.org/grpc"

	"github.com/keyturn/keyturn/examples/im/impb"
	"github.com/keyturn/keyturn/examples/im/node"
	"github.com/keyturn/keyturn/middleware/grpc"
)

// newServer makes the gRPC server. Here the groups' methods get the locks that im.proto
// describes. It also returns the interceptor; nil without locks.
//
// Users.SetStatus takes turns, too, but the gateways do that.
func newServer(n *node.Node) (*grpc.Server, *lockgrpc.Interceptor, error) {
	var opts []grpc.ServerOption // for spans otelgrpc's stats handler: docs/observability.md
	var locks *lockgrpc.Interceptor
	if n.Locks != nil {
		var err error
		if locks, err = lockgrpc.New(n.Locks, lockgrpc.FromAnnotations(&impb.Groups_ServiceDesc)); err != nil {
			return nil, nil, err
		}
		opts = append(opts, grpc.ChainUnaryInterceptor(locks.Unary()))
	}
	server := grpc.NewServer(opts...)
	impb.RegisterUsersServer(server, &users{db: n.DB})
	impb.RegisterGroupsServer(server, &groups{db: n.DB})
	return server, locks, nil
}

// Serve runs a replica until ctx ends. It calls ready with its address.
func Serve(ctx context.Context, n *node.Node, ready func(addr string)) error {
	server, _, err := newServer(n)
	if err != nil {
		return err
	}
	worker, err := startWorker(n)
	if err != nil {
		return err
	}
	defer worker.Shutdown()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	ready(listener.Addr().String())
	stop := context.AfterFunc(ctx, server.GracefulStop)
	defer stop()
	if err := server.Serve(listener); ctx.Err() == nil {
		return err
	}
	return nil // it was told to stop, perhaps before it began
}
