package lockgrpc

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/rule"
)

// ReplayedHeader is set to "true" in the header of a response that comes from the record of an
// earlier call.
const ReplayedHeader = "keyturn-replayed"

// deterministic makes the same content have the same fingerprint.
var deterministic = proto.MarshalOptions{Deterministic: true}

// errNotStored abandons the claim of an execution whose response reports a failure.
var errNotStored = errors.New("lockgrpc: the response must not be stored")

// once runs a call once per key and answers its repeats from the record.
func (r *boundRule) once(from request, keys rule.Keys, req any, next func(context.Context) (any, error)) (any, error) {
	var digest []byte
	var err error
	if !keys.Missing() {
		digest, err = r.method.fingerprint(from.message.Interface())
		keys, err = r.Spare(keys, err)
	}
	if err != nil {
		return nil, r.refuse(from.ctx, keys, err, nil)
	}
	var response any
	out, refused, own := r.RunOnce(from.ctx, keys, func(ctx context.Context) ([]byte, error) {
		var err error
		if response, err = next(ctx); err != nil || r.Info().Shadow { // a shadow stores nothing
			return nil, err
		}
		if m, ok := response.(proto.Message); ok && r.storable != nil && !r.storable(m) {
			return nil, errNotStored
		}
		record, err := r.method.record(response)
		if err != nil {
			return nil, r.refuse(ctx, keys, err, nil)
		}
		return record, nil
	}, core.WithFingerprint(digest))
	switch {
	case refused != nil:
		return nil, r.refuse(from.ctx, keys, refused, own)
	case own == errNotStored:
		return response, nil
	case !out.Duplicate:
		return response, own
	}
	if err := r.check(from.ctx, req); err != nil { // the call may have waited for long
		return nil, r.refuse(from.ctx, keys, err, nil)
	}
	if response, err = r.method.replay(out.Result); err != nil {
		return nil, r.refuse(from.ctx, keys, err, nil)
	}
	// This fails without a gRPC call, as in a test that calls the interceptor. The response is
	// still right.
	_ = grpc.SetHeader(from.ctx, metadata.Pairs(ReplayedHeader, "true"))
	return response, nil
}

// fingerprint identifies what the call asks for: the method and the content.
func (m *method) fingerprint(message proto.Message) ([]byte, error) {
	b := append([]byte(m.FullName()), 0) // no name contains a zero byte
	b, err := deterministic.MarshalAppend(b, message)
	if err != nil {
		return nil, fmt.Errorf("lockgrpc: fingerprint: %w", err)
	}
	sum := sha256.Sum256(b)
	return sum[:], nil
}

// record returns the response in the form in which it is stored: in a google.protobuf.Any, so
// that the record has its type and can be read in every language.
func (m *method) record(response any) ([]byte, error) {
	message, ok := response.(proto.Message)
	if !ok || message.ProtoReflect().Descriptor() != m.Output() {
		return nil, fmt.Errorf("lockgrpc: the handler answered a %T, want a message of type %s", response, m.Output().FullName())
	}
	var typed anypb.Any
	if err := anypb.MarshalFrom(&typed, message, deterministic); err != nil {
		return nil, fmt.Errorf("lockgrpc: record: %w", err)
	}
	return deterministic.Marshal(&typed)
}

// replay makes a response of a record. A record of another type, which another method or an
// earlier version left under the same key, is an error. It is not decoded: the wire format
// would make something of it.
func (m *method) replay(record []byte) (proto.Message, error) {
	var typed anypb.Any
	if err := proto.Unmarshal(record, &typed); err != nil {
		return nil, fmt.Errorf("lockgrpc: replay: %w", err)
	}
	response := m.output.New().Interface()
	if err := anypb.UnmarshalTo(&typed, response, proto.UnmarshalOptions{}); err != nil {
		return nil, fmt.Errorf("lockgrpc: replay: %w", err)
	}
	return response, nil
}
