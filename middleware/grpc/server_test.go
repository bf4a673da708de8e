package lockgrpc_test

import (
	"context"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	lockgrpc "github.com/keyturn/keyturn/middleware/grpc"
	"github.com/keyturn/keyturn/middleware/grpc/internal/testpb"
)

// server is what the tests call: each method is a function. The nil ones of unary methods succeed.
type server struct {
	testpb.UnimplementedUsersServer
	testpb.UnimplementedGroupsServer
	setStatus func(context.Context, *testpb.SetStatusRequest) (*testpb.SetStatusResponse, error)
	members   func(context.Context, *testpb.AddMembersRequest) (*testpb.AddMembersResponse, error)
	watch     func(*testpb.WatchRequest, grpc.ServerStreamingServer[testpb.Event]) error
	importAll func(grpc.ClientStreamingServer[testpb.ImportRequest, testpb.ImportResponse]) error
	chat      func(grpc.BidiStreamingServer[testpb.Event, testpb.Event]) error
}

func (s *server) SetStatus(ctx context.Context, r *testpb.SetStatusRequest) (*testpb.SetStatusResponse, error) {
	if s.setStatus == nil {
		return &testpb.SetStatusResponse{}, nil
	}
	return s.setStatus(ctx, r)
}

func (s *server) AddMembers(ctx context.Context, r *testpb.AddMembersRequest) (*testpb.AddMembersResponse, error) {
	if s.members == nil {
		return &testpb.AddMembersResponse{}, nil
	}
	return s.members(ctx, r)
}

func (s *server) Watch(r *testpb.WatchRequest, stream grpc.ServerStreamingServer[testpb.Event]) error {
	return s.watch(r, stream)
}

func (s *server) Import(stream grpc.ClientStreamingServer[testpb.ImportRequest, testpb.ImportResponse]) error {
	return s.importAll(stream)
}

func (s *server) Chat(stream grpc.BidiStreamingServer[testpb.Event, testpb.Event]) error {
	return s.chat(stream)
}

type client struct {
	testpb.UsersClient
	testpb.GroupsClient
}

// serve starts s on a port of its own, with locks inside of whatever opts bring, and ends it with the test.
func serve(t testing.TB, s *server, locks *lockgrpc.Interceptor, opts ...grpc.ServerOption) client {
	t.Helper()
	srv := grpc.NewServer(append(opts, grpc.ChainUnaryInterceptor(locks.Unary()), grpc.ChainStreamInterceptor(locks.Stream()))...)
	testpb.RegisterUsersServer(srv, s)
	testpb.RegisterGroupsServer(srv, s)
	return dial(t, listen(t, srv))
}

func listen(t testing.TB, srv *grpc.Server) (addr string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	done := make(chan error, 1)
	go func() { done <- srv.Serve(listener) }()
	t.Cleanup(func() {
		srv.Stop()
		wantNil(t, <-done)
	})
	return listener.Addr().String()
}

func dial(t testing.TB, addr string, opts ...grpc.DialOption) client {
	t.Helper()
	conn, err := grpc.NewClient(addr, append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	return client{testpb.NewUsersClient(conn), testpb.NewGroupsClient(conn)}
}

// seen records the errors that pass interceptors outside of the lock.
type seen chan error

func (s seen) unary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	resp, err := handler(ctx, req)
	s <- err
	return resp, err
}

func (s seen) stream(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	err := handler(srv, stream)
	s <- err
	return err
}

// options have s record the errors of all calls.
func (s seen) options() []grpc.ServerOption {
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(s.unary), grpc.ChainStreamInterceptor(s.stream)}
}

// outside has an interceptor of each kind outside of the lock: it gives calls another context.
func outside(change func(context.Context) (context.Context, context.CancelFunc)) []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			ctx, cancel := change(ctx)
			defer cancel()
			return handler(ctx, req)
		}),
		grpc.ChainStreamInterceptor(func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
			ctx, cancel := change(stream.Context())
			defer cancel()
			return handler(srv, withContext{stream, ctx})
		}),
	}
}

type withContext struct {
	grpc.ServerStream
	ctx context.Context
}

func (s withContext) Context() context.Context { return s.ctx }

// recovery are the interceptors that every server has outermost.
var recovery = []grpc.ServerOption{
	grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
		defer recovered(&err)
		return handler(ctx, req)
	}),
	grpc.ChainStreamInterceptor(func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
		defer recovered(&err)
		return handler(srv, stream)
	}),
}

func recovered(err *error) {
	if p := recover(); p != nil {
		*err = status.Errorf(codes.Internal, "recovered: %v", p)
	}
}

type fakeStream struct {
	grpc.ServerStream
	ctx  context.Context
	recv func(any) error
}

func (s *fakeStream) Context() context.Context { return s.ctx }
func (s *fakeStream) RecvMsg(m any) error      { return s.recv(m) }
func (s *fakeStream) SendMsg(any) error        { return nil }
