package lockgrpc_test

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/keyturn/keyturn/core"
	lockgrpc "github.com/keyturn/keyturn/middleware/grpc"
	"github.com/keyturn/keyturn/middleware/grpc/internal/testpb"
)

// slowConn is a connection whose client stops reading, or writing, until it is
// told to go on.
type slowConn struct {
	net.Conn
	noReads, noWrites *gate
}

// gate lets everybody pass until it is shut.
type gate struct {
	shut atomic.Bool
	open chan struct{}
}

func newGate() *gate { return &gate{open: make(chan struct{})} }

func (g *gate) pass() {
	if g.shut.Load() {
		<-g.open
	}
}

func (c *slowConn) Read(p []byte) (int, error) {
	c.noReads.pass()
	return c.Conn.Read(p)
}

// Write sends 1000 bytes, and the rest when the gate is open.
func (c *slowConn) Write(p []byte) (int, error) {
	first := min(len(p), 1000)
	n, err := c.Conn.Write(p[:first])
	if err != nil || first == len(p) {
		return n, err
	}
	c.noWrites.pass()
	rest, err := c.Conn.Write(p[first:])
	return n + rest, err
}

// dialSlowly connects another client to the server of a connection.
func dialSlowly(t *testing.T, target string) (users testpb.UsersClient, noReads, noWrites *gate) {
	t.Helper()
	noReads, noWrites = newGate(), newGate()
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
			return &slowConn{conn, noReads, noWrites}, err
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return testpb.NewUsersClient(conn), noReads, noWrites
}

// TestASlowClientOfAUnaryMethod keeps no key: the request has come before the
// interceptor runs, and the response goes out after it.
func TestASlowClientOfAUnaryMethod(t *testing.T) {
	large := strings.Repeat("x", 3<<20)
	for _, tt := range []struct {
		name     string
		request  *testpb.SetStatusRequest
		response *testpb.SetStatusResponse
		reads    bool // slowly; else it writes slowly
	}{
		{"sends its request slowly", &testpb.SetStatusRequest{UserId: 42, MessageId: large}, &testpb.SetStatusResponse{}, false},
		{"reads its response slowly", &testpb.SetStatusRequest{UserId: 42}, &testpb.SetStatusResponse{Text: large}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			eng := memory(t)
			shut := make(chan *gate, 1)
			s := &server{setStatus: func(context.Context, *testpb.SetStatusRequest) (*testpb.SetStatusResponse, error) {
				select {
				case g := <-shut: // the slow client's call
					g.shut.Store(true)
					return tt.response, nil
				default:
					return &testpb.SetStatusResponse{}, nil
				}
			}}
			conn := start(t, locks(t, eng, lockgrpc.Serialize(setStatus, "user:{user_id}", core.WithFailFast())), func(srv *grpc.Server) {
				testpb.RegisterUsersServer(srv, s)
			})
			slow, noReads, noWrites := dialSlowly(t, conn.Target())
			if _, err := slow.SetStatus(bounded(t), &testpb.SetStatusRequest{UserId: 1}); err != nil { // connects
				t.Fatal(err)
			}
			stopped := noWrites
			if tt.reads {
				stopped = noReads
				shut <- noReads
			} else {
				noWrites.shut.Store(true)
			}
			done := make(chan error, 1)
			go func() {
				_, err := slow.SetStatus(bounded(t), tt.request)
				done <- err
			}()
			time.Sleep(200 * time.Millisecond) // the slow call is under way
			for range 5 {
				if _, err := testpb.NewUsersClient(conn).SetStatus(bounded(t), &testpb.SetStatusRequest{UserId: 42}); err != nil {
					t.Errorf("another call on the key: %v", err)
				}
			}
			select {
			case err := <-done:
				t.Errorf("the slow call has ended: %v", err)
			default:
			}
			close(stopped.open)
			if err := wait(t, done, "end of the slow call"); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestAStreamNobodyReads keeps its key for as long as it may be held, and not
// longer.
func TestAStreamNobodyReads(t *testing.T) {
	eng := memory(t)
	ended := make(chan error, 1)
	s := &server{watch: func(_ *testpb.WatchRequest, stream grpc.ServerStreamingServer[testpb.Event]) error {
		var err error
		for err == nil {
			err = stream.Send(&testpb.Event{Text: strings.Repeat("x", 100_000)})
		}
		ended <- err
		return err
	}}
	c := serve(t, s, locks(t, eng, lockgrpc.Serialize(watch, "group:{group_id}", core.WithTTL(time.Second), core.WithMaxHold(200*time.Millisecond))))
	ctx, hangUp := context.WithCancel(bounded(t))
	defer hangUp()
	if _, err := c.Watch(ctx, &testpb.WatchRequest{GroupId: "7"}); err != nil {
		t.Fatal(err)
	}
	taken(t, eng, "group:7")
	free(t, eng, "group:7")
	select {
	case err := <-ended:
		t.Errorf("the handler has ended: %v", err)
	default:
	}
	hangUp()
	if err := wait(t, ended, "end of the handler"); err == nil {
		t.Error("no error")
	}
}

// taken waits until somebody has key.
func taken(t *testing.T, eng *core.Engine, key string) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		lease, err := eng.TryAcquire(bounded(t), key)
		if err != nil {
			return
		}
		if err := lease.Release(bounded(t)); err != nil {
			t.Fatal(err)
		}
		if time.Now().After(deadline) {
			t.Fatal("nobody takes the key")
		}
	}
}
