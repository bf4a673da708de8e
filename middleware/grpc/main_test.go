package lockgrpc_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/observe"
	lockgrpc "github.com/keyturn/keyturn/middleware/grpc"
	"github.com/keyturn/keyturn/middleware/grpc/internal/testpb"
	"github.com/keyturn/keyturn/store/memstore"
)

const (
	setStatus  = testpb.Users_SetStatus_FullMethodName
	addMembers = testpb.Groups_AddMembers_FullMethodName
	watch      = testpb.Groups_Watch_FullMethodName
	importAll  = testpb.Groups_Import_FullMethodName
	chat       = testpb.Groups_Chat_FullMethodName
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is what the tests call: each method is a function. The nil ones of
// unary methods succeed.
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

// client is a connection to a running server.
type client struct {
	testpb.UsersClient
	testpb.GroupsClient
	annotated testpb.AnnotatedClient
}

// serve starts s on a port of its own, with locks inside of whatever opts
// bring, and ends it with the test.
func serve(t testing.TB, s *server, locks *lockgrpc.Interceptor, opts ...grpc.ServerOption) client {
	t.Helper()
	srv := grpc.NewServer(append(opts, grpc.ChainUnaryInterceptor(locks.Unary()), grpc.ChainStreamInterceptor(locks.Stream()))...)
	testpb.RegisterUsersServer(srv, s)
	testpb.RegisterGroupsServer(srv, s)
	return dial(t, listen(t, srv))
}

// listen starts srv on a port of its own.
func listen(t testing.TB, srv *grpc.Server) (addr string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(listener) }()
	t.Cleanup(func() {
		srv.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}

// dial makes a client of the server at addr.
func dial(t testing.TB, addr string, opts ...grpc.DialOption) client {
	t.Helper()
	conn, err := grpc.NewClient(addr, append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return client{testpb.NewUsersClient(conn), testpb.NewGroupsClient(conn), testpb.NewAnnotatedClient(conn)}
}

// engine makes an engine over store that ends with the test.
func engine(t testing.TB, store driver.Store, opts ...core.EngineOption) *core.Engine {
	t.Helper()
	eng, err := core.New(store, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := eng.Close(bounded(t)); err != nil {
			t.Error(err) // somebody holds a lease still
		}
	})
	return eng
}

func locks(t testing.TB, eng *core.Engine, rules ...lockgrpc.Rule) *lockgrpc.Interceptor {
	t.Helper()
	i, err := lockgrpc.New(eng, rules...)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// memory is an engine over a store of its own.
func memory(t testing.TB, opts ...core.EngineOption) *core.Engine {
	t.Helper()
	return engine(t, memstore.New(), opts...)
}

// bounded is a context for a test's calls: a hang becomes a failure.
func bounded(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// free waits until nobody has key.
func free(t testing.TB, eng *core.Engine, key string) {
	t.Helper()
	lease, err := eng.Acquire(bounded(t), key)
	if err != nil {
		t.Fatal(err)
	}
	if err := lease.Release(bounded(t)); err != nil {
		t.Error(err)
	}
}

// hold has another process hold key until the returned lease is released, or the test ends.
func hold(t testing.TB, store driver.Store, key string) *core.Lease {
	t.Helper()
	lease, err := engine(t, store).Acquire(bounded(t), key)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lease.Release(context.Background()) })
	return lease
}

// isHeld reports whether somebody has key.
func isHeld(t testing.TB, eng *core.Engine, key string) bool {
	t.Helper()
	lease, err := eng.TryAcquire(bounded(t), key)
	if errors.Is(err, core.ErrHeld) {
		return true
	}
	if err == nil {
		err = lease.Release(bounded(t))
	}
	if err != nil {
		t.Error(err)
	}
	return false
}

// claimsOf are the claims that the work of ctx runs under, such as "shared a, exclusive b".
func claimsOf(ctx context.Context) string {
	lease, ok := core.LeaseFrom(ctx)
	if !ok {
		return ""
	}
	var all []string
	for _, c := range lease.Claims() {
		all = append(all, fmt.Sprint(c.Mode, " ", c.Key))
	}
	return strings.Join(all, ", ")
}

// refusing is a store that grants nothing.
type refusing struct {
	*memstore.Store
	err error
}

func (s refusing) Acquire(context.Context, driver.Request) (driver.Grant, error) {
	return driver.Grant{}, s.err
}

func (s refusing) Begin(context.Context, driver.Request) (driver.Grant, *driver.Record, error) {
	return driver.Grant{}, nil, s.err
}

// steal ends the lease of ctx behind its holder's back, as the expiry of a
// paused process does.
func steal(t testing.TB, store driver.Store, ctx context.Context) {
	t.Helper()
	lease, ok := core.LeaseFrom(ctx)
	if !ok {
		t.Error("the handler's context has no lease")
		return
	}
	if err := store.Release(context.Background(), driver.Grant{Owner: lease.Owner(), Claims: lease.Claims()}); err != nil {
		t.Error(err)
	}
}

// reason returns the ErrorInfo reason of a status, and checks its domain.
func reason(t testing.TB, err error) string {
	t.Helper()
	info, ok := detail[*errdetails.ErrorInfo](err)
	if !ok {
		return ""
	}
	if info.Domain != lockgrpc.Domain {
		t.Errorf("domain is %q", info.Domain)
	}
	return info.Reason
}

// detail returns the detail of type T that err's status carries.
func detail[T any](err error) (found T, ok bool) {
	for _, d := range status.Convert(err).Details() {
		if found, ok = d.(T); ok {
			return found, true
		}
	}
	return found, false
}

// wait receives from c, or fails the test.
func wait[T any](t testing.TB, c <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(10 * time.Second):
		t.Fatalf("no %s", what)
	}
	return v
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

// recovery and recoverStream are what every server has outermost.
func recovery(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
	defer recovered(&err)
	return handler(ctx, req)
}

func recoverStream(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
	defer recovered(&err)
	return handler(srv, stream)
}

func recovered(err *error) {
	if p := recover(); p != nil {
		*err = status.Errorf(codes.Internal, "recovered: %v", p)
	}
}

// seeLeases puts each lease, as hooks see it, into the context of the work under it.
var seeLeases = observe.Hooks{HoldStart: func(ctx context.Context, l observe.Lease) context.Context {
	return context.WithValue(ctx, seenLease{}, l)
}}

type seenLease struct{}

// leaseSeen is the innermost lease that seeLeases has put into ctx.
func leaseSeen(ctx context.Context) observe.Lease { return ctx.Value(seenLease{}).(observe.Lease) }
