package lockgrpc

import (
	"context"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/keyturn/keyturn/core"
)

// LeaseHeader is the metadata in which leases are carried.
const LeaseHeader = "keyturn-lease"

// CarryLeases is a client's side of leases that reach further than one process:
// it tells the server which leases the caller works under (core.CarryLeases), so
// that the method can take the same keys without waiting for its own caller.
// Give it to the connections to services of your own, as what it sends is a
// credential. The zero value is ready for use.
//
// The caller has to wait for the answer before it releases. A call that has
// ended early, by its deadline, may still be at work over there.
type CarryLeases struct{}

// Unary returns the interceptor for unary calls, for
// grpc.WithChainUnaryInterceptor.
func (CarryLeases) Unary() grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		return invoker(carry(ctx), method, req, reply, cc, opts...)
	}
}

// Stream returns the interceptor for streams, for grpc.WithChainStreamInterceptor.
// A stream carries what is held when it is opened.
func (CarryLeases) Stream() grpc.StreamClientInterceptor {
	return func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		return streamer(carry(ctx), desc, cc, method, opts...)
	}
}

// carry sets the metadata. What a proxy has copied from its own caller is in it
// already, if it was accepted, and else not this client's to send.
func carry(ctx context.Context) context.Context {
	leases := core.CarryLeases(ctx)
	if leases == "" {
		return ctx
	}
	md, _ := metadata.FromOutgoingContext(ctx) // a copy
	if md == nil {
		md = metadata.MD{}
	}
	md.Set(LeaseHeader, leases)
	return metadata.NewOutgoingContext(ctx, md)
}

// AcceptLeases is a server's side of [CarryLeases]: what the client says that it
// holds is believed as far as the store confirms it (core.WithCarried), also by
// what the handler itself acquires. Its interceptors stand before those of
// [Interceptor]:
//
//	grpc.ChainUnaryInterceptor(lockgrpc.AcceptLeases{}.Unary(), locks.Unary())
//
// A server without it takes no notice. The zero value is ready for use.
type AcceptLeases struct{}

// Unary returns the interceptor for unary methods, for grpc.ChainUnaryInterceptor.
func (AcceptLeases) Unary() grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		return handler(accept(ctx), req)
	}
}

// Stream returns the interceptor for streaming methods, for
// grpc.ChainStreamInterceptor.
func (AcceptLeases) Stream() grpc.StreamServerInterceptor {
	return func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		if ctx := accept(stream.Context()); ctx != stream.Context() {
			stream = &acceptedStream{ServerStream: stream, ctx: ctx}
		}
		return handler(srv, stream)
	}
}

func accept(ctx context.Context) context.Context {
	return core.WithCarried(ctx, strings.Join(metadata.ValueFromIncomingContext(ctx, LeaseHeader), ","))
}

// acceptedStream is a stream whose client carries leases.
type acceptedStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *acceptedStream) Context() context.Context { return s.ctx }
