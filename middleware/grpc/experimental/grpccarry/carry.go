// Package grpccarry lets a gRPC method run under the leases of its caller: see
// core/experimental/carry. The client has [UnaryClient] and [StreamClient]; the server has
// [UnaryServer] and [StreamServer], before the interceptors of lockgrpc:
//
//	grpc.NewClient(addr, grpc.WithChainUnaryInterceptor(grpccarry.UnaryClient), ...)
//	grpc.NewServer(grpc.ChainUnaryInterceptor(grpccarry.UnaryServer, locks.Unary()))
//
// A server without them ignores what clients carry. The caller must wait for the answer
// before it releases its leases. A call that has ended early, by its deadline, may still be
// at work on the server.
//
// The package is experimental, as its place says. Its functions are safe for concurrent use.
package grpccarry

import (
	"context"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/keyturn/keyturn/core/experimental/carry"
)

// UnaryClient is a grpc.UnaryClientInterceptor that tells the server which leases the call's
// context is under. Use it on connections to services of your own only, because what it sends
// is a credential.
func UnaryClient(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	return invoker(outgoing(ctx), method, req, reply, cc, opts...)
}

// StreamClient is [UnaryClient] for streams. A stream carries the leases that are in force
// when it is opened.
func StreamClient(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return streamer(outgoing(ctx), desc, cc, method, opts...)
}

// outgoing sets the metadata. It replaces or removes what a proxy has copied from its own caller: if
// the proxy has accepted that, it is in leases; otherwise it is not this client's to send.
func outgoing(ctx context.Context) context.Context {
	leases := carry.Leases(ctx)
	md, _ := metadata.FromOutgoingContext(ctx) // a copy
	if leases == "" && md.Get(carry.Header) == nil {
		return ctx
	}
	if md == nil {
		md = metadata.MD{}
	}
	if leases == "" {
		md.Delete(carry.Header)
	} else {
		md.Set(carry.Header, leases)
	}
	return metadata.NewOutgoingContext(ctx, md)
}

// UnaryServer is a grpc.UnaryServerInterceptor that runs the method under the leases that the
// client carries, as far as the store confirms them (carry.Accept).
func UnaryServer(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	return handler(incoming(ctx), req)
}

// StreamServer is [UnaryServer] for streams: a grpc.StreamServerInterceptor.
func StreamServer(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	if ctx := incoming(stream.Context()); ctx != stream.Context() {
		stream = &acceptedStream{ServerStream: stream, ctx: ctx}
	}
	return handler(srv, stream)
}

func incoming(ctx context.Context) context.Context {
	return carry.Accept(ctx, strings.Join(metadata.ValueFromIncomingContext(ctx, carry.Header), ","))
}

// acceptedStream is a stream whose client carries leases.
type acceptedStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *acceptedStream) Context() context.Context { return s.ctx }
