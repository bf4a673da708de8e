package lockgrpc

import (
	"context"
	"slices"

	"google.golang.org/grpc"
)

// Registrar returns a registrar for services that only get one, and no server whose options have the
// interceptors, as in frameworks that make the server themselves. What is registered by it runs under
// the rules; r serves it. Interceptors of the server stay outside of the rules.
//
// Use it instead of [Interceptor.Unary] and [Interceptor.Stream] for the same server: with both, a
// call would ask for its keys twice.
func (i *Interceptor) Registrar(r grpc.ServiceRegistrar) grpc.ServiceRegistrar {
	return &registrar{to: r, unary: i.Unary(), stream: i.Stream()}
}

type registrar struct {
	to     grpc.ServiceRegistrar
	unary  grpc.UnaryServerInterceptor
	stream grpc.StreamServerInterceptor
}

// RegisterService implements grpc.ServiceRegistrar.
func (r *registrar) RegisterService(desc *grpc.ServiceDesc, impl any) {
	guarded := *desc // the caller's is shared by all servers
	guarded.Methods, guarded.Streams = slices.Clone(desc.Methods), slices.Clone(desc.Streams)
	for i := range guarded.Methods {
		m := &guarded.Methods[i]
		m.Handler = r.method(m.Handler)
	}
	for i := range guarded.Streams {
		s := &guarded.Streams[i]
		next, info := s.Handler, &grpc.StreamServerInfo{
			FullMethod:     "/" + desc.ServiceName + "/" + s.StreamName,
			IsClientStream: s.ClientStreams, IsServerStream: s.ServerStreams,
		}
		s.Handler = func(srv any, stream grpc.ServerStream) error { return r.stream(srv, stream, info, next) }
	}
	r.to.RegisterService(&guarded, impl)
}

// method puts the rule between the server's interceptors and the handler.
func (r *registrar) method(next methodHandler) methodHandler {
	return func(srv any, ctx context.Context, decode func(any) error, outer grpc.UnaryServerInterceptor) (any, error) {
		if outer == nil {
			return next(srv, ctx, decode, r.unary)
		}
		return next(srv, ctx, decode, func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			return outer(ctx, req, info, func(ctx context.Context, req any) (any, error) { return r.unary(ctx, req, info, handler) })
		})
	}
}

// methodHandler is the type of [grpc.MethodDesc.Handler], which has no name in older versions.
type methodHandler = func(srv any, ctx context.Context, decode func(any) error, outer grpc.UnaryServerInterceptor) (any, error)
