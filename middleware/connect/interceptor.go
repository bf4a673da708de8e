package lockconnect

import (
	"context"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/keyturn/keyturn/core"
	lockgrpc "github.com/keyturn/keyturn/middleware/grpc"
)

// Interceptor is a connect.Interceptor that applies rules to the calls of handlers. It is safe for
// concurrent use. Make one with [New].
type Interceptor struct {
	rules  *lockgrpc.Interceptor
	unary  grpc.UnaryServerInterceptor
	stream grpc.StreamServerInterceptor
}

// New checks the rules and makes an interceptor of them. It does no I/O. Its errors are those of
// lockgrpc.New.
func New(eng *core.Engine, rules ...lockgrpc.Rule) (*Interceptor, error) {
	locks, err := lockgrpc.New(eng, rules...)
	if err != nil {
		return nil, err
	}
	return over(locks), nil
}

func over(locks *lockgrpc.Interceptor) *Interceptor {
	return &Interceptor{rules: locks, unary: locks.Unary(), stream: locks.Stream()}
}

// WithErrorHandler returns an Interceptor with the same rules that answers refusals by h. Use it in
// place of i. h may return a *connect.Error, which gets the details of the default answer, too.
func (i *Interceptor) WithErrorHandler(h lockgrpc.ErrorHandler) *Interceptor {
	return over(i.rules.WithErrorHandler(h))
}

// WrapUnary implements connect.Interceptor.
func (i *Interceptor) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		if req.Spec().IsClient {
			return next(ctx, req)
		}
		call := newCall(req.Spec().Procedure)
		var response connect.AnyResponse
		kept, err := i.unary(call.context(ctx, req.Header()), req.Any(), &grpc.UnaryServerInfo{FullMethod: call.method},
			func(ctx context.Context, _ any) (any, error) {
				var err error
				if response, err = next(ctx, req); err != nil {
					return nil, &ownError{err}
				}
				return response.Any(), nil
			})
		switch {
		case err != nil:
			return nil, answer(err)
		case response == nil:
			response = replayed{AnyResponse: connect.NewResponse(&emptypb.Empty{}), message: kept}
		}
		call.copyTo(response.Header())
		return response, nil
	}
}

// replayed is a response from the record. Its type is known only at run time.
type replayed struct {
	connect.AnyResponse // its header and trailer
	message             any
}

// Any implements connect.AnyResponse.
func (r replayed) Any() any { return r.message }

// WrapStreamingClient implements connect.Interceptor. It does nothing.
func (i *Interceptor) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler implements connect.Interceptor.
func (i *Interceptor) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		call := newCall(conn.Spec().Procedure)
		stream := &serverStream{conn: conn, ctx: call.context(ctx, conn.RequestHeader())}
		return answer(i.stream(nil, stream, &grpc.StreamServerInfo{FullMethod: call.method}, func(_ any, held grpc.ServerStream) error {
			if err := next(held.Context(), &heldConn{StreamingHandlerConn: conn, held: held}); err != nil {
				return &ownError{err}
			}
			return nil
		}))
	}
}
