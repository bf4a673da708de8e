package replicatest

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/keyturn/keyturn/core"
	lockgrpc "github.com/keyturn/keyturn/middleware/grpc"
	"github.com/keyturn/keyturn/middleware/reasons"
)

// The keys come with each call's metadata, in x-id: the messages are those of gRPC's own
// tests, which have no better place for them.
const (
	serialized = pb.TestService_EmptyCall_FullMethodName
	once       = pb.TestService_UnaryCall_FullMethodName
	failFast   = pb.TestService_StreamingOutputCall_FullMethodName
	messages   = pb.TestService_FullDuplexCall_FullMethodName
)

// service is one whose methods are functions.
type service struct {
	pb.UnimplementedTestServiceServer
	serialized func()
	once       func() *pb.SimpleResponse
	message    func(ctx context.Context, key string)
}

func (s *service) EmptyCall(context.Context, *pb.Empty) (*pb.Empty, error) {
	s.serialized()
	return &pb.Empty{}, nil
}

func (s *service) UnaryCall(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	return s.once(), nil
}

func (s *service) FullDuplexCall(stream grpc.BidiStreamingServer[pb.StreamingOutputCallRequest, pb.StreamingOutputCallResponse]) error {
	for {
		request, err := stream.Recv()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		s.message(stream.Context(), fmt.Sprintf("group:%x", request.GetPayload().GetBody()))
		if err := stream.Send(&pb.StreamingOutputCallResponse{Payload: request.GetPayload()}); err != nil {
			return err
		}
	}
}

// serve starts a replica, and ends it with the test.
func (s *service) serve(t *testing.T, b *backend, opts ...core.EngineOption) pb.TestServiceClient {
	t.Helper()
	locks, err := lockgrpc.New(newEngine(t, b, opts...),
		lockgrpc.Serialize(serialized, "user:status:{metadata.x-id}"),
		lockgrpc.Once(once, "once:{metadata.x-id}"),
		lockgrpc.Serialize(failFast, "group:{metadata.x-id}", core.WithFailFast()),
		lockgrpc.SerializeMessages(messages, "group:{payload.body}"),
	)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(locks.Unary()), grpc.ChainStreamInterceptor(locks.Stream()))
	pb.RegisterTestServiceServer(server, s)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return pb.NewTestServiceClient(conn)
}

// with is a context whose calls have the key of id.
func with(ctx context.Context, id string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "x-id", id)
}

func TestGRPC(t *testing.T) { onBackends(t, testGRPC) }

func testGRPC(t *testing.T, b *backend) {
	var updates, executions atomic.Int32
	s := &service{
		serialized: func() {
			read := updates.Load()
			time.Sleep(time.Millisecond) // room for the other replica, if it got in
			updates.Store(read + 1)
		},
		once: func() *pb.SimpleResponse { return &pb.SimpleResponse{ServerId: fmt.Sprint(executions.Add(1))} },
	}
	replicas := []pb.TestServiceClient{s.serve(t, b), s.serve(t, b)}
	ctx := bounded(t)

	var calls sync.WaitGroup
	for i := range 40 {
		calls.Go(func() {
			if _, err := replicas[i%2].EmptyCall(with(ctx, "42"), &pb.Empty{}); err != nil {
				t.Error(err)
			}
		})
	}
	answers := make([]string, 10)
	for i := range answers {
		calls.Go(func() {
			response, err := replicas[i%2].UnaryCall(with(ctx, fmt.Sprint(i/2)), &pb.SimpleRequest{})
			if err != nil {
				t.Error(err)
			}
			answers[i] = response.GetServerId()
		})
	}
	calls.Wait()
	if n := updates.Load(); n != 40 {
		t.Errorf("%d of 40 updates are left", n)
	}
	for i := 0; i < len(answers); i += 2 {
		if answers[i] == "" || answers[i] != answers[i+1] {
			t.Errorf("call %d was answered with %q and %q", i/2, answers[i], answers[i+1])
		}
	}
	if n := executions.Load(); n != 5 {
		t.Errorf("%d executions of 5 calls that came twice", n)
	}

	// Another process has the lock, on Redis a client in another language.
	release := func() error { return nil }
	if b.redis != nil {
		if err := b.redis.Client().Set(ctx, "lock:group:7", "another", time.Minute).Err(); err != nil {
			t.Fatal(err)
		}
	} else {
		lease, err := newEngine(t, b).Acquire(ctx, "group:7")
		if err != nil {
			t.Fatal(err)
		}
		release = func() error { return lease.Release(ctx) }
	}
	watch := func() error {
		stream, err := replicas[0].StreamingOutputCall(with(ctx, "7"), &pb.StreamingOutputCallRequest{})
		if err != nil {
			return err
		}
		_, err = stream.Recv()
		return err
	}
	if err := watch(); status.Code(err) != codes.Aborted || reason(err) != reasons.LockHeld {
		t.Error(err)
	}

	if err := release(); err != nil {
		t.Error(err)
	}
	b.kill()
	if err := watch(); status.Code(err) != codes.Unavailable || reason(err) != reasons.StoreUnavailable {
		t.Errorf("without its server: %v", err)
	}
}

// The replicas take each other's messages one by one.
func TestMessagesOfGRPCStreams(t *testing.T) { onBackends(t, testMessages) }

func testMessages(t *testing.T, b *backend) {
	const streams, messages = 4, 10
	var inside, processed atomic.Int32
	s := &service{message: func(ctx context.Context, key string) {
		if err := core.AssertHeld(ctx, core.Exclusive(key)); err != nil {
			t.Error(err)
		}
		if n := inside.Add(1); n > 1 {
			t.Errorf("%d messages at a time", n)
		}
		processed.Add(1)
		inside.Add(-1)
	}}
	replicas := []pb.TestServiceClient{s.serve(t, b), s.serve(t, b)}
	ctx := bounded(t)
	var all sync.WaitGroup
	for n := range streams {
		all.Go(func() {
			stream, err := replicas[n%2].FullDuplexCall(ctx)
			if err != nil {
				t.Error(err)
				return
			}
			for range messages {
				if err := stream.Send(&pb.StreamingOutputCallRequest{Payload: &pb.Payload{Body: []byte("7")}}); err != nil {
					t.Error(err)
				}
				if _, err := stream.Recv(); err != nil {
					t.Error(err)
					return
				}
			}
			if err := stream.CloseSend(); err != nil {
				t.Error(err)
			}
			if _, err := stream.Recv(); err != io.EOF {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := processed.Load(); n != streams*messages {
		t.Errorf("%d messages were processed", n)
	}
}

// A Redis that is full: what has been carried out stays so, however often it is
// delivered, and what has not is refused before its handler runs.
func TestEffectsOnARedisWithoutMemory(t *testing.T) {
	b := onRedis(t)
	var effects atomic.Int32
	limit := func(maxmemory string) {
		if out, err := b.redis.CLI("CONFIG", "SET", "maxmemory", maxmemory); out != "OK" {
			t.Errorf("%s, %v", out, err)
		}
	}
	s := &service{once: func() *pb.SimpleResponse {
		effects.Add(1)
		limit("1mb") // the server alone takes more
		return &pb.SimpleResponse{ServerId: strings.Repeat("x", 10_000)}
	}}
	noCircuit := core.WithCircuit(core.Forever)
	replicas := []pb.TestServiceClient{s.serve(t, b, noCircuit), s.serve(t, b, noCircuit)}
	ctx := bounded(t)
	response, err := replicas[0].UnaryCall(with(ctx, "a"), &pb.SimpleRequest{})
	if err != nil || len(response.GetServerId()) != 10_000 {
		t.Errorf("the first caller got %d bytes, %v", len(response.GetServerId()), err)
	}
	for _, c := range replicas {
		if _, err := c.UnaryCall(with(ctx, "a"), &pb.SimpleRequest{}); status.Code(err) != codes.AlreadyExists || reason(err) != reasons.ResultNotKept {
			t.Errorf("a repeat: %v", err)
		}
		if _, err := c.UnaryCall(with(ctx, "b"), &pb.SimpleRequest{}); status.Code(err) != codes.Unavailable || reason(err) != reasons.StoreUnavailable {
			t.Errorf("another message: %v", err)
		}
	}
	if n := effects.Load(); n != 1 {
		t.Errorf("%d effects, want 1", n)
	}
	limit("0")
	if _, err := replicas[1].UnaryCall(with(ctx, "b"), &pb.SimpleRequest{}); err != nil || effects.Load() != 2 {
		t.Errorf("with memory again: %v, %d effects", err, effects.Load())
	}
}

// reason returns the reason that err's status carries.
func reason(err error) string {
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			return info.GetReason()
		}
	}
	return ""
}
