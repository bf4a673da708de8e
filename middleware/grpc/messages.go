package lockgrpc

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/rule"
)

// SerializeMessages makes each message that a client sends on a stream take its own turn,
// instead of the stream as a whole. It is for streams that stay open, with messages for
// different keys.
//
// The handler's Recv returns when the message has its turn. The turn ends when the handler asks
// for the next message, or returns. Work on a message, and send what belongs to it, in between.
//
//	for {
//		event, err := stream.Recv()
//		if err != nil {
//			return err
//		}
//		ctx := stream.Context() // this message's: it has the lease, and ends with it
//		...
//	}
//
// So stream.Context() differs for each message. Before the first message it is the stream's
// own, without a lease. An interceptor inside of the lock that replaces the stream's context
// for good hides the message's context from the handler.
//
// A refused message ends the stream: Recv returns the error, now and from then on. A client
// then knows only from what it received which messages were processed. A lost lease has the
// same effect: the message's context ends, the next Recv fails, and so does the call, whatever
// the handler returns.
//
// It is for methods whose clients stream. In the template, {fields} are those of each message,
// for a bidirectional stream, too.
func SerializeMessages(method, template string, opts ...core.CallOption) Rule {
	r := Serialize(method, template, opts...)
	r.messages = true
	return r
}

// SerializeMessagesBy is [SerializeMessages] with a function that makes the key;
// see [SerializeBy]. T is the type of the client's messages.
func SerializeMessagesBy[T proto.Message](method string, key func(T) string, opts ...core.CallOption) Rule {
	r := SerializeBy(method, key, opts...)
	r.messages = true
	return r
}

// eachMessage runs a handler whose messages take turns.
func (r *boundRule) eachMessage(srv any, stream grpc.ServerStream, handler grpc.StreamHandler) error {
	s := &messageStream{ServerStream: stream, rule: r}
	s.ctx, s.cancel = context.WithCancel(stream.Context())
	s.at.Store(&between)
	defer s.close() // even if the handler panics
	own := handler(srv, s)
	return s.answer(own)
}

// messageStream is a stream whose messages take turns.
type messageStream struct {
	grpc.ServerStream
	rule   *boundRule
	ctx    context.Context // of the stream; ends when the handler has returned
	cancel context.CancelFunc

	mu sync.Mutex                      // guards changes of at; held while a message waits for its turn
	at atomic.Pointer[messageProgress] // for Context and SendMsg, which do not wait
}

// messageProgress is how far a stream is.
type messageProgress struct {
	turn    *rule.Turn // the turn of the message that the handler has
	refused error      // why the stream gets no more messages
}

// between is the state between two messages, and before the first.
var between messageProgress

// Context returns the context of the message that the handler has.
func (s *messageStream) Context() context.Context {
	if t := s.at.Load().turn; t != nil {
		return t.Context
	}
	return s.ctx
}

// RecvMsg ends the turn of the last message and waits for the next message and its turn. No
// lock is held while the client sends nothing.
func (s *messageStream) RecvMsg(m any) error {
	if err := s.endTurn(); err != nil {
		return err
	}
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	return s.beginTurn(m)
}

// SendMsg sends nothing after the message's lease was lost.
func (s *messageStream) SendMsg(m any) error {
	at := s.at.Load()
	if errors.Is(at.refused, core.ErrLeaseLost) {
		return at.refused
	}
	if at.turn != nil {
		if err := lost(at.turn.Context); err != nil {
			return err
		}
	}
	return s.ServerStream.SendMsg(m)
}

func (s *messageStream) beginTurn(m any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, keys, err := s.rule.takeTurn(s.ctx, m)
	if err != nil {
		err = s.rule.answer(s.ctx, keys, err, refuse(err))
	}
	s.at.Store(&messageProgress{turn: t, refused: err})
	return err
}

// endTurn ends the present turn. An error says why there is no next one.
func (s *messageStream) endTurn() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.at.Load()
	if at.turn == nil {
		return at.refused
	}
	next := &between
	if err := at.turn.End(); err != nil {
		next = &messageProgress{refused: s.rule.answer(s.ctx, at.turn.Keys, err, refuse(err))}
	}
	s.at.Store(next)
	return next.refused
}

// close ends the last turn. It also ends the wait of a goroutine that the handler left behind.
func (s *messageStream) close() error {
	s.cancel()
	return s.endTurn()
}

// answer returns the end of the call, after the handler returned own.
func (s *messageStream) answer(own error) error {
	refused := s.close()
	switch {
	case refused == nil, own != nil && !errors.Is(refused, core.ErrLeaseLost):
		return own
	case own == nil || own == refused: // a message that was refused is never a success
		return refused
	default: // the ErrorHandler has answered already
		return &refusedCall{status: status.Convert(refused), causes: []error{refused, own}}
	}
}

// takeTurn waits for a message's turn.
func (r *boundRule) takeTurn(ctx context.Context, m any) (*rule.Turn, rule.Keys, error) {
	if err := r.check(ctx, m); err != nil {
		return nil, rule.Keys{}, err
	}
	_, keys, err := r.keysOf(ctx, m)
	if err != nil {
		return nil, keys, err
	}
	t, err := r.Take(ctx, keys)
	return t, keys, err
}
