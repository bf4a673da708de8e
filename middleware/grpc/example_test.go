package lockgrpc_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/keytmpl"
	lockgrpc "github.com/keyturn/keyturn/middleware/grpc"
	"github.com/keyturn/keyturn/middleware/grpc/internal/testpb"
	"github.com/keyturn/keyturn/store/memstore"
)

// users is a service whose handlers know nothing of locks.
type users struct {
	testpb.UnimplementedUsersServer
	statuses map[int64]testpb.Status
}

func (u *users) SetStatus(_ context.Context, r *testpb.SetStatusRequest) (*testpb.SetStatusResponse, error) {
	old := u.statuses[r.GetUserId()]
	u.statuses[r.GetUserId()] = r.GetStatus()
	return &testpb.SetStatusResponse{Text: fmt.Sprint("was ", old)}, nil
}

func Example() {
	eng, err := core.New(memstore.New(), core.WithMaxWait(2*time.Second))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer eng.Close(context.Background())
	locks, err := lockgrpc.New(eng,
		lockgrpc.Serialize(testpb.Users_SetStatus_FullMethodName, "user:status:{user_id}"),
	)
	if err != nil {
		fmt.Println(err) // every rule that is wrong, and why
		return
	}
	client, stop := usersOf(locks)
	defer stop()

	for _, s := range []testpb.Status{testpb.Status_STATUS_ONLINE, testpb.Status_STATUS_AWAY} {
		response, err := client.SetStatus(context.Background(), &testpb.SetStatusRequest{UserId: 42, Status: s})
		fmt.Println(response.GetText(), err)
	}
	_, err = client.SetStatus(context.Background(), &testpb.SetStatusRequest{})
	fmt.Println(err)
	// Output:
	// was STATUS_UNSPECIFIED <nil>
	// was STATUS_ONLINE <nil>
	// rpc error: code = InvalidArgument desc = user_id: value is missing or empty
}

// A message that is delivered twice is processed once, and both deliveries get
// the same response.
func ExampleOnce() {
	eng, _ := core.New(memstore.New())
	defer eng.Close(context.Background())
	locks, err := lockgrpc.New(eng, lockgrpc.Once(testpb.Users_SetStatus_FullMethodName,
		"once:status:{message_id}", core.WithRetention(time.Hour)))
	if err != nil {
		fmt.Println(err)
		return
	}
	client, stop := usersOf(locks)
	defer stop()

	for range 2 {
		var header metadata.MD
		response, err := client.SetStatus(context.Background(), &testpb.SetStatusRequest{
			MessageId: "8f2c", UserId: 42, Status: testpb.Status_STATUS_ONLINE,
		}, grpc.Header(&header))
		fmt.Println(response.GetText(), err, header.Get(lockgrpc.ReplayedHeader))
	}
	// Output:
	// was STATUS_UNSPECIFIED <nil> []
	// was STATUS_UNSPECIFIED <nil> [true]
}

// A key function, for what a template can't say: all users of a shard take
// turns.
func ExampleSerializeBy() {
	rule := lockgrpc.SerializeBy(testpb.Users_SetStatus_FullMethodName,
		func(r *testpb.SetStatusRequest) string { return fmt.Sprint("shard:", r.GetUserId()%16) })
	named := lockgrpc.SerializeBy(testpb.Groups_AddMembers_FullMethodName,
		func(r *testpb.AddMembersRequest) string {
			// Escape keeps "a:b","c" and "a","b:c" apart.
			return "group:" + keytmpl.Escape(r.GetGroup().GetTenant().GetName()) + ":" + keytmpl.Escape(r.GetGroup().GetId())
		})

	eng, _ := core.New(memstore.New())
	defer eng.Close(context.Background())
	_, err := lockgrpc.New(eng, rule, named)
	fmt.Println(err)
	// Output: <nil>
}

// A client that is refused learns why, and when to come back.
func ExampleDomain() {
	store := memstore.New()
	eng, _ := core.New(store)
	defer eng.Close(context.Background())
	locks, err := lockgrpc.New(eng, lockgrpc.Serialize(testpb.Users_SetStatus_FullMethodName, "user:{user_id}", core.WithFailFast()))
	if err != nil {
		fmt.Println(err)
		return
	}
	client, stop := usersOf(locks)
	defer stop()
	err = eng.Do(context.Background(), "user:42", func(context.Context) error {
		_, err := client.SetStatus(context.Background(), &testpb.SetStatusRequest{UserId: 42})
		return err
	})
	fmt.Println(status.Code(err))
	for _, detail := range status.Convert(err).Details() {
		switch d := detail.(type) {
		case *errdetails.ErrorInfo:
			fmt.Println(d.GetDomain() == lockgrpc.Domain, d.GetReason())
		case *errdetails.RetryInfo:
			fmt.Println(d.GetRetryDelay().AsDuration() > 0)
		}
	}
	// Output:
	// Aborted
	// true LOCK_HELD
	// true
}

// room is a service with a stream that stays open, and brings messages for many groups.
type room struct {
	testpb.UnimplementedGroupsServer
}

func (room) Chat(stream grpc.BidiStreamingServer[testpb.Event, testpb.Event]) error {
	for {
		event, err := stream.Recv() // returns when the message has its turn
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		ctx := stream.Context() // the message's
		lease, _ := core.LeaseFrom(ctx)
		event.Text += " under " + lease.Key()
		if err := stream.Send(event); err != nil {
			return err
		}
	} // asking for the next message ends this one's turn
}

func ExampleSerializeMessages() {
	eng, _ := core.New(memstore.New())
	defer eng.Close(context.Background())
	locks, err := lockgrpc.New(eng, lockgrpc.SerializeMessages(testpb.Groups_Chat_FullMethodName, "group:{group_id}"))
	if err != nil {
		fmt.Println(err)
		return
	}
	conn, stop := connect(locks, func(server *grpc.Server) { testpb.RegisterGroupsServer(server, room{}) })
	defer stop()

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stream, err := testpb.NewGroupsClient(conn).Chat(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, group := range []string{"7", "8"} {
		_ = stream.Send(&testpb.Event{GroupId: group, Text: "hello"})
		answer, err := stream.Recv()
		fmt.Println(answer.GetText(), err)
	}
	// Output:
	// hello under group:7 <nil>
	// hello under group:8 <nil>
}

// usersOf starts a server of users with locks and connects to it.
func usersOf(locks *lockgrpc.Interceptor) (client testpb.UsersClient, stop func()) {
	conn, stop := connect(locks, func(server *grpc.Server) {
		testpb.RegisterUsersServer(server, &users{statuses: map[int64]testpb.Status{}})
	})
	return testpb.NewUsersClient(conn), stop
}

// connect starts a server with locks and connects to it.
func connect(locks *lockgrpc.Interceptor, register func(*grpc.Server)) (conn *grpc.ClientConn, stop func()) {
	server := grpc.NewServer(
		grpc.ChainUnaryInterceptor(locks.Unary()),
		grpc.ChainStreamInterceptor(locks.Stream()),
	)
	register(server)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go server.Serve(listener)
	conn, err = grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		panic(err)
	}
	return conn, func() { conn.Close(); server.Stop() }
}
