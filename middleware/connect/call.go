package lockconnect

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/keyturn/keyturn/internal/refusal"
	lockgrpc "github.com/keyturn/keyturn/middleware/grpc"
)

// call is a call as lockgrpc finds it: its metadata, and headers that are set for its response. It
// is a grpc.ServerTransportStream.
type call struct {
	method string
	header metadata.MD
}

func newCall(method string) *call { return &call{method: method, header: metadata.MD{}} }

// context returns ctx with the call and its headers.
func (c *call) context(ctx context.Context, header http.Header) context.Context {
	md := make(metadata.MD, len(header))
	for name, values := range header {
		name = strings.ToLower(name)
		for _, value := range values {
			if strings.HasSuffix(name, "-bin") {
				if decoded, err := connect.DecodeBinaryHeader(value); err == nil { // otherwise it is no such value
					value = string(decoded)
				}
			}
			md[name] = append(md[name], value)
		}
	}
	return grpc.NewContextWithServerTransportStream(metadata.NewIncomingContext(ctx, md), c)
}

// Method implements grpc.ServerTransportStream.
func (c *call) Method() string { return c.method }

// SetHeader implements grpc.ServerTransportStream.
func (c *call) SetHeader(md metadata.MD) error {
	c.header = metadata.Join(c.header, md)
	return nil
}

// SendHeader implements grpc.ServerTransportStream.
func (c *call) SendHeader(md metadata.MD) error { return c.SetHeader(md) }

// SetTrailer implements grpc.ServerTransportStream.
func (c *call) SetTrailer(metadata.MD) error { return nil }

// copyTo adds the headers to those of the response.
func (c *call) copyTo(header http.Header) {
	for name, values := range c.header {
		for _, value := range values {
			header.Add(name, value)
		}
	}
}

// serverStream is a stream as lockgrpc finds it.
type serverStream struct {
	grpc.ServerStream // nil: its other methods are not called
	conn              connect.StreamingHandlerConn
	ctx               context.Context
}

func (s *serverStream) Context() context.Context { return s.ctx }
func (s *serverStream) RecvMsg(m any) error      { return s.conn.Receive(m) }
func (s *serverStream) SendMsg(m any) error      { return s.conn.Send(m) }

// heldConn is the stream that the handler gets. It ends with the lease.
type heldConn struct {
	connect.StreamingHandlerConn
	held grpc.ServerStream
}

// Receive implements connect.StreamingHandlerConn.
func (c *heldConn) Receive(m any) error { return answer(c.held.RecvMsg(m)) }

// Send implements connect.StreamingHandlerConn.
func (c *heldConn) Send(m any) error { return answer(c.held.SendMsg(m)) }

// StatusOf is lockgrpc.StatusOf for handlers of connect: it returns a *connect.Error.
func StatusOf(method string, err error) error {
	if refusal.Of(err) == refusal.Internal {
		return err
	}
	return answer(lockgrpc.StatusOf(method, err))
}

// ownError is a handler's own error on its way through lockgrpc. It need not be of a type that can be compared.
type ownError struct{ error }

func (e *ownError) Unwrap() error { return e.error }

// answer makes connect's error of lockgrpc's, with the same code, text and details. The handler's own
// error comes back as it is, and so does the stream's, such as that of a message that is too large.
func answer(err error) error {
	if own, ok := err.(*ownError); ok {
		return own.error
	}
	said, ours := status.FromError(err)
	if err == nil || !ours {
		return err
	}
	e := connect.NewError(connect.Code(said.Code()), &cause{said.Message(), err})
	if own := ownAnswer(err); own != nil {
		e = connect.NewError(own.Code(), &cause{own.Message(), err})
		for _, detail := range own.Details() {
			e.AddDetail(detail)
		}
		for name, values := range own.Meta() {
			e.Meta()[name] = values
		}
	}
	for _, d := range said.Details() {
		if m, ok := d.(proto.Message); ok {
			if detail, err := connect.NewErrorDetail(m); err == nil { // a known message can be encoded
				e.AddDetail(detail)
			}
		}
	}
	return e
}

// ownAnswer is the connect error that the service itself gave: that of an ErrorHandler, a precheck or a key
// function; nil: none.
func ownAnswer(err error) (own *connect.Error) {
	var answered interface{ Answer() error }
	var denied *refusal.Denied
	var failed *refusal.KeyFailed
	switch {
	case errors.As(err, &answered):
		errors.As(answered.Answer(), &own)
	case errors.As(err, &denied):
		errors.As(denied.Err, &own)
	case errors.As(err, &failed):
		errors.As(failed.Err, &own)
	}
	return own
}

// cause has the text that the client gets, and matches what the engine's error matches.
type cause struct {
	text string
	err  error
}

func (c *cause) Error() string { return c.text }
func (c *cause) Unwrap() error { return c.err }
