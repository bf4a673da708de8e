package lockgrpc_test

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/keyturn/keyturn/core"
	lockgrpc "github.com/keyturn/keyturn/middleware/grpc"
	"github.com/keyturn/keyturn/middleware/grpc/internal/testpb"
	"github.com/keyturn/keyturn/middleware/reasons"
	"github.com/keyturn/keyturn/store/memstore"
)

// A stream says with its first Recv that it was refused. The interceptor then opens it again.
func TestRetryOfAStream(t *testing.T) {
	store := memstore.New()
	eng := engine(t, store)
	free(t, eng, "group:7") // leases are short
	holder, err := eng.Acquire(bounded(t), "group:7")
	must(t, err)
	var tries atomic.Int32
	count := func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		if tries.Add(1) == 2 {
			wantNil(t, holder.Release(stream.Context()))
		}
		return handler(srv, stream)
	}
	i := locks(t, eng, lockgrpc.Serialize(watch, "group:{group_id}", core.WithFailFast()))
	srv := grpc.NewServer(grpc.ChainStreamInterceptor(count, i.Stream()))
	testpb.RegisterGroupsServer(srv, &server{watch: func(r *testpb.WatchRequest, stream grpc.ServerStreamingServer[testpb.Event]) error {
		return errors.Join(stream.Send(&testpb.Event{GroupId: r.GetGroupId()}), stream.Send(&testpb.Event{Text: "second"}))
	}})
	stream, err := dial(t, listen(t, srv), grpc.WithChainStreamInterceptor(lockgrpc.Retry{Attempts: 100}.Stream())).
		Watch(bounded(t), &testpb.WatchRequest{GroupId: "7"})
	must(t, err)
	if first, err := stream.Recv(); err != nil || tries.Load() != 2 || first.GetGroupId() != "7" {
		t.Fatalf("after %d tries: %v, %v", tries.Load(), first, err)
	}
	if e, err := stream.Recv(); err != nil || e.GetText() != "second" {
		t.Error(e, err)
	}
	if _, err := stream.Recv(); err != io.EOF {
		t.Error(err)
	}
	if header, err := stream.Header(); err != nil || len(header.Get("content-type")) != 1 {
		t.Errorf("header: %v, %v", header, err)
	}
	if stream.Trailer() == nil || stream.Context().Err() == nil {
		t.Error("the trailer and the context are not those of the last attempt, which has ended")
	}
}

// A stream that can't be opened again ends the call with its own error.
func TestStreamThatCannotBeOpenedAgain(t *testing.T) {
	gone := errors.New("gone")
	for name, failing := range map[string]failingStream{
		"open": {}, "send": {send: gone}, "close": {closing: gone},
	} {
		opened := 0
		streamer := func(context.Context, *grpc.StreamDesc, *grpc.ClientConn, string, ...grpc.CallOption) (grpc.ClientStream, error) {
			if opened++; opened == 1 {
				return failingStream{recv: refusal(lockgrpc.Domain, reasons.LockHeld, watch, time.Millisecond)}, nil
			}
			if name == "open" {
				return nil, gone
			}
			return failing, nil
		}
		stream, err := lockgrpc.Retry{}.Stream()(bounded(t), &grpc.StreamDesc{ServerStreams: true}, nil, watch, streamer)
		must(t, err)
		wantNil(t, errors.Join(stream.SendMsg("request"), stream.CloseSend()))
		if err := stream.RecvMsg(nil); !errors.Is(err, gone) || opened != 2 {
			t.Errorf("%s: opened %d times, %v", name, opened, err)
		}
	}
}

// failingStream is a client's stream with these answers.
type failingStream struct {
	grpc.ClientStream
	send, closing, recv error
}

func (s failingStream) SendMsg(any) error { return s.send }

func (s failingStream) CloseSend() error { return s.closing }

func (s failingStream) RecvMsg(any) error { return s.recv }

// A stream on which the client may send more is not touched.
func TestClientStreamsAreNotRepeated(t *testing.T) {
	own := failingStream{}
	streamer := func(context.Context, *grpc.StreamDesc, *grpc.ClientConn, string, ...grpc.CallOption) (grpc.ClientStream, error) {
		return own, nil
	}
	stream, err := lockgrpc.Retry{}.Stream()(bounded(t), &grpc.StreamDesc{ClientStreams: true}, nil, chat, streamer)
	check(t, err == nil && stream == grpc.ClientStream(own), "%v, %v", stream, err)
}
