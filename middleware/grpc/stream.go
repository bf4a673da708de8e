package lockgrpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/rule"
	"github.com/keyturn/keyturn/keytmpl"
)

// Stream returns the interceptor for streaming methods, for grpc.ChainStreamInterceptor. It
// does not affect methods without a rule.
//
// If the key is in the request, the first message is received before the handler is called,
// which then gets it from its first RecvMsg. So no part of the handler runs outside of the
// lock, and it cannot have taken a context before there was a lease. The price is that a client
// has to send before it receives anything. If a client waits for the header first, take the key
// from metadata. A client that sends no message at all gets INVALID_ARGUMENT.
func (i *Interceptor) Stream() grpc.StreamServerInterceptor {
	i.stream.Store(true)
	return func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		// A client's path may come without the slash: grpc before 1.79.3 carries it out all the same.
		r, ok := i.rules["/"+strings.TrimPrefix(info.FullMethod, "/")]
		if !ok {
			return handler(srv, stream)
		}
		if r.messages {
			return r.eachMessage(srv, stream, handler)
		}
		held := &heldStream{ServerStream: stream}
		from := request{ctx: stream.Context()}
		var err error
		if r.readsMessage {
			if held.first, err = r.firstMessage(stream); err == nil {
				from.message = held.first.ProtoReflect()
			}
		}
		if err == nil {
			if err := r.Check(from); err != nil {
				return r.refuse(from.ctx, rule.Keys{}, err, nil)
			}
		}
		keys, err := r.streamKeys(from, err)
		if err != nil {
			return err
		}
		refused, own := r.Serialize(from.ctx, keys, func(ctx context.Context) error {
			held.ctx = ctx
			return handler(srv, held)
		})
		if refused != nil {
			return r.refuse(from.ctx, keys, refused, own)
		}
		return own
	}
}

// firstMessage receives the message from which the key is made.
func (r *boundRule) firstMessage(stream grpc.ServerStream) (proto.Message, error) {
	first := r.method.input.New().Interface()
	if err := stream.RecvMsg(first); err != nil {
		return nil, err
	}
	return first, nil
}

// streamKeys makes the keys of a stream, unless its first message did not come: then err says why. A
// stream that runs anyway gets that error again from its own RecvMsg.
func (r *boundRule) streamKeys(from request, err error) (rule.Keys, error) {
	if err != nil {
		keys, err := r.Spare(rule.Keys{}, err)
		if errors.Is(err, io.EOF) {
			err = fmt.Errorf("lockgrpc: the stream ended before its first message: %w", keytmpl.ErrMissingValue)
			err = r.refuse(from.ctx, keys, err, nil)
		}
		return keys, err
	}
	keys, err := r.Keys(from.ctx, from)
	if err != nil {
		err = r.refuse(from.ctx, keys, err, nil)
	}
	return keys, err
}

// heldStream is a stream whose handler runs under a lease.
type heldStream struct {
	grpc.ServerStream
	ctx   context.Context
	first proto.Message // received, and not yet passed to the handler
}

// Context is the lease's.
func (s *heldStream) Context() context.Context { return s.ctx }

// RecvMsg returns when the lease ends. Otherwise a handler that waits for a silent client would
// go on as if it had the lock. As after any error of RecvMsg, m must not be used then.
func (s *heldStream) RecvMsg(m any) error {
	if err := lost(s.ctx); err != nil {
		return err
	}
	if first := s.first; first != nil {
		s.first = nil
		return handOver(first, m)
	}
	// gRPC cannot interrupt a RecvMsg. This goroutine ends with it, at the latest when the
	// handler has returned and gRPC ends the stream.
	done := make(chan received, 1)
	go func() { done <- receive(s.ServerStream, m) }()
	var r received
	select {
	case r = <-done:
	case <-s.ctx.Done():
		if lost(s.ctx) == nil {
			r = <-done // the caller has gone, which RecvMsg reports in its own way
		}
	}
	if r.panicked != nil {
		panic(r.panicked) // here the handler's recovery can see it
	}
	if err := lost(s.ctx); err != nil {
		return err
	}
	return r.err
}

// received is the result of a RecvMsg.
type received struct {
	err      error
	panicked any
}

func receive(stream grpc.ServerStream, m any) (r received) {
	defer func() { r.panicked = recover() }()
	r.err = stream.RecvMsg(m)
	return r
}

// SendMsg sends nothing after the lease was lost: what the handler sends by then may be wrong.
func (s *heldStream) SendMsg(m any) error {
	if err := lost(s.ctx); err != nil {
		return err
	}
	return s.ServerStream.SendMsg(m)
}

// lost returns the error that the call will end with, if the lease of ctx was lost.
func lost(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	if cause := context.Cause(ctx); errors.Is(cause, core.ErrLeaseLost) {
		return refuse(cause)
	}
	return nil
}

// handOver copies a message that was received into our message to the handler's.
func handOver(from proto.Message, m any) error {
	to, ok := m.(proto.Message)
	if !ok || to.ProtoReflect().Descriptor() != from.ProtoReflect().Descriptor() {
		return refuse(fmt.Errorf("lockgrpc: the handler receives into a %T, the method takes a %T", m, from))
	}
	proto.Reset(to)
	proto.Merge(to, from)
	return nil
}
