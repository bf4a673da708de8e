package lockgrpc

import (
	"context"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// Stream returns the interceptor that repeats streams on which the client sends one message,
// for grpc.WithChainStreamInterceptor. The first Recv reports a refusal; it then opens the
// stream again and sends the same message. Before that, Header, Trailer and Context belong to
// the attempt under way.
//
// It does not affect streams on which the client may send more messages. The application has to
// repeat what was sent and answered. See [Retry.Do].
func (r Retry) Stream() grpc.StreamClientInterceptor {
	return func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		open := func(ctx context.Context) (grpc.ClientStream, error) { return streamer(ctx, desc, cc, method, opts...) }
		first, err := open(ctx)
		if err != nil || desc.ClientStreams {
			return first, err
		}
		return &repeatable{retry: r, method: method, ctx: ctx, open: open, current: first}, nil
	}
}

// repeatable is a stream that can be opened again, until something was received on it.
type repeatable struct {
	retry   Retry
	method  string
	ctx     context.Context
	open    func(context.Context) (grpc.ClientStream, error)
	request any  // what the client sent
	begun   bool // RecvMsg has returned once

	mu      sync.Mutex // Header and Trailer may be called while RecvMsg runs
	current grpc.ClientStream
}

// attempt returns the stream in use.
func (s *repeatable) attempt() grpc.ClientStream {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

func (s *repeatable) RecvMsg(m any) error {
	if s.begun {
		return s.attempt().RecvMsg(m)
	}
	s.begun = true
	again := false
	return s.retry.Do(s.ctx, s.method, func(ctx context.Context) error {
		if again {
			if err := s.reopen(ctx); err != nil {
				return err
			}
		}
		again = true
		return s.attempt().RecvMsg(m)
	})
}

// reopen starts another attempt.
func (s *repeatable) reopen(ctx context.Context) error {
	next, err := s.open(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.current = next
	s.mu.Unlock()
	if err := next.SendMsg(s.request); err != nil {
		return err
	}
	return next.CloseSend()
}

func (s *repeatable) SendMsg(m any) error {
	s.request = m
	return s.attempt().SendMsg(m)
}

func (s *repeatable) Header() (metadata.MD, error) { return s.attempt().Header() }
func (s *repeatable) Trailer() metadata.MD         { return s.attempt().Trailer() }
func (s *repeatable) CloseSend() error             { return s.attempt().CloseSend() }
func (s *repeatable) Context() context.Context     { return s.attempt().Context() }
