package lockgrpc_test

import (
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/observe"
	lockgrpc "github.com/keyturn/keyturn/middleware/grpc"
	"github.com/keyturn/keyturn/middleware/grpc/internal/testpb"
	"github.com/keyturn/keyturn/store/memstore"
)

type spanKey struct{}

// spanFrom names the span that ctx is in.
func spanFrom(ctx context.Context) string {
	name, _ := ctx.Value(spanKey{}).(string)
	return name
}

// spans does what OpenTelemetry's stats handler does: it puts a span into the
// context of each call, and ends it with the call.
type spans struct {
	mu     sync.Mutex
	events []string
}

func (s *spans) TagRPC(ctx context.Context, info *stats.RPCTagInfo) context.Context {
	return context.WithValue(ctx, spanKey{}, info.FullMethodName)
}

func (s *spans) HandleRPC(ctx context.Context, event stats.RPCStats) {
	switch e := event.(type) {
	case *stats.Begin:
		s.add("begin " + spanFrom(ctx))
	case *stats.End:
		s.add("end " + spanFrom(ctx) + " " + status.Code(e.Error).String())
	}
}

func (s *spans) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (s *spans) HandleConn(context.Context, stats.ConnStats)                       {}

func (s *spans) add(event string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, event)
}

// asking is an observer, as tracing is: it looks at the context of each wait.
type asking struct {
	spans *spans
}

func (a asking) hooks() observe.Hooks {
	return observe.Hooks{AcquireStart: a.AcquireStart}
}

func (a asking) AcquireStart(ctx context.Context, _ observe.Acquisition) context.Context {
	a.spans.add("wait in " + spanFrom(ctx))
	return ctx
}

// alice is authentication, for unary calls and for streams: it looks at the
// span as well, to see where it stands.
func alice(ctx context.Context) context.Context {
	md, _ := metadata.FromIncomingContext(ctx)
	md = md.Copy()
	md.Set("x-user", "alice")
	return metadata.NewIncomingContext(ctx, md)
}

func aliceUnary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	return handler(alice(ctx), req)
}

type withContext struct {
	grpc.ServerStream
	ctx context.Context
}

func (s withContext) Context() context.Context { return s.ctx }

func aliceStream(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	return handler(srv, withContext{stream, alice(stream.Context())})
}

// The whole chain in the order that the package documents: stats handler,
// recovery, authentication, lock, handler. Each has what those outside of it put
// into the context; the wait is part of the call's span, and so is its refusal.
func TestOrderOfInterceptors(t *testing.T) {
	store, seen := memstore.New(), &spans{}
	eng := engine(t, store, core.WithHooks(asking{spans: seen}.hooks()))
	i := locks(t, eng,
		lockgrpc.Serialize(setStatus, "user:{metadata.x-user}", core.WithFailFast()),
		lockgrpc.Once(addMembers, "once:{metadata.x-user}"),
		lockgrpc.Serialize(watch, "group:{metadata.x-user}"),
		lockgrpc.SerializeMessages(chat, "chat:{metadata.x-user}"),
	)
	look := func(ctx context.Context, method, key string) {
		if err := core.AssertHeld(ctx, core.Exclusive(key)); err != nil {
			t.Errorf("%s: %v", method, err)
		}
		if got := spanFrom(ctx); got != method {
			t.Errorf("%s: the handler is in span %q", method, got)
		}
	}
	s := &server{
		setStatus: func(ctx context.Context, r *testpb.SetStatusRequest) (*testpb.SetStatusResponse, error) {
			look(ctx, setStatus, "user:alice")
			if r.GetUserId() == 13 {
				panic("boom")
			}
			return &testpb.SetStatusResponse{}, nil
		},
		members: func(ctx context.Context, _ *testpb.AddMembersRequest) (*testpb.AddMembersResponse, error) {
			look(ctx, addMembers, "once:alice")
			return &testpb.AddMembersResponse{}, nil
		},
		watch: func(_ *testpb.WatchRequest, stream grpc.ServerStreamingServer[testpb.Event]) error {
			look(stream.Context(), watch, "group:alice")
			return nil
		},
		chat: func(stream chatStream) error {
			if _, err := stream.Recv(); err != nil {
				return err
			}
			look(stream.Context(), chat, "chat:alice")
			panic("boom")
		},
	}
	c := serve(t, s, i, grpc.StatsHandler(seen),
		grpc.ChainUnaryInterceptor(recovery, aliceUnary), grpc.ChainStreamInterceptor(recoverStream, aliceStream))
	// expect compares what was seen of one call, once it has ended.
	expect := func(method string, err error, code codes.Code) {
		t.Helper()
		if err != nil && err != io.EOF && status.Code(err) != code || (err == nil || err == io.EOF) && code != codes.OK {
			t.Errorf("%s: %v, want %v", method, err, code)
		}
		want := "begin " + method + ", wait in " + method + ", end " + method + " " + code.String()
		var got string
		for ctx := bounded(t); ctx.Err() == nil; { // the end is told after the client has its answer
			seen.mu.Lock()
			got = strings.Join(seen.events, ", ")
			seen.mu.Unlock()
			if got == want {
				break
			}
			time.Sleep(time.Millisecond)
		}
		if got != want {
			t.Errorf("%s: saw %s, want %s", method, got, want)
		}
		seen.mu.Lock()
		seen.events = nil
		seen.mu.Unlock()
	}

	_, err := c.SetStatus(bounded(t), online(42))
	expect(setStatus, err, codes.OK)
	_, err = c.SetStatus(bounded(t), online(13))
	expect(setStatus, err, codes.Internal)

	holder, err := engine(t, store).Acquire(bounded(t), "user:alice")
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.SetStatus(bounded(t), online(42))
	expect(setStatus, err, codes.Aborted)
	if err := holder.Release(bounded(t)); err != nil {
		t.Error(err)
	}

	_, err = c.AddMembers(bounded(t), &testpb.AddMembersRequest{})
	expect(addMembers, err, codes.OK)

	watching, err := c.Watch(bounded(t), &testpb.WatchRequest{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = watching.Recv()
	expect(watch, err, codes.OK)

	talking := talk(t, c)
	say(t, talking, "7")
	_, err = talking.Recv()
	expect(chat, err, codes.Internal)
	free(t, eng, "chat:alice")
}

// A transaction inside of the lock commits before the lock is free.
func TestWorkInsideOfTheLockEndsBeforeIt(t *testing.T) {
	eng := memory(t)
	var steps []string
	transaction := func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		resp, err := handler(ctx, req)
		if held := core.AssertHeld(ctx, core.Exclusive("user:42")); held != nil {
			t.Errorf("the commit: %v", held)
		}
		steps = append(steps, "commit")
		return resp, err
	}
	outside := func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		resp, err := handler(ctx, req)
		lease, acquired := eng.TryAcquire(ctx, "user:42")
		if acquired != nil {
			t.Errorf("outside of the lock: %v", acquired)
		} else if err := lease.Release(ctx); err != nil {
			t.Error(err)
		}
		steps = append(steps, "free")
		return resp, err
	}
	i := locks(t, eng, lockgrpc.Serialize(setStatus, "user:{user_id}"))
	conn := start(t, locks(t, eng), func(srv *grpc.Server) {
		testpb.RegisterUsersServer(srv, &server{setStatus: func(context.Context, *testpb.SetStatusRequest) (*testpb.SetStatusResponse, error) {
			return &testpb.SetStatusResponse{}, nil
		}})
	}, grpc.ChainUnaryInterceptor(outside, i.Unary(), transaction))
	if _, err := testpb.NewUsersClient(conn).SetStatus(bounded(t), online(42)); err != nil {
		t.Error(err)
	}
	if got := strings.Join(steps, ", "); got != "commit, free" {
		t.Errorf("order: %s", got)
	}
}
