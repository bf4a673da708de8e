package lockgrpc_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	lockgrpc "github.com/keyturn/keyturn/middleware/grpc"
	"github.com/keyturn/keyturn/middleware/grpc/internal/testpb"
	"github.com/keyturn/keyturn/middleware/reasons"
	"github.com/keyturn/keyturn/store/memstore"
)

// The rows of the design's table that can be about a stream, over a connection:
// for a stream as a whole, and for one message of it.
func TestRefusalsOfStreams(t *testing.T) {
	const key = "group:7"
	secret := errors.New("secret: password of redis at 10.1.2.3")
	failFast, shortWait := core.WithFailFast(), core.WithMaxWait(time.Millisecond)
	for _, tt := range []struct {
		name   string
		store  driver.Store    // default: a memstore, in which another process has the key
		opt    core.CallOption // of the rule
		close  bool            // the engine is closed before
		noKey  bool
		bound  time.Duration // the caller's
		code   codes.Code
		reason string
		retry  bool
		is     error
	}{
		{name: "held, fail-fast", opt: failFast, code: codes.Aborted, reason: reasons.LockHeld, retry: true, is: core.ErrHeld},
		{name: "held, waited", opt: shortWait, code: codes.Aborted, reason: reasons.WaitTimeout, retry: true, is: core.ErrWaitTimeout},
		{name: "too many waiters", store: refusing{memstore.New(), &core.TooManyWaitersError{Key: key, Limit: 3}}, code: codes.ResourceExhausted, reason: reasons.TooManyWaiters, retry: true, is: core.ErrTooManyWaiters},
		{name: "store down", store: refusing{memstore.New(), &core.UnavailableError{Op: "acquire", Err: secret}}, code: codes.Unavailable, reason: reasons.StoreUnavailable, retry: true, is: core.ErrUnavailable},
		{name: "engine closed", close: true, code: codes.Unavailable, reason: reasons.Stopping, retry: true, is: core.ErrClosed},
		{name: "no key", noKey: true, code: codes.InvalidArgument, reason: reasons.KeyInvalid},
		{name: "anything else", store: refusing{memstore.New(), secret}, code: codes.Internal, reason: reasons.Internal, is: secret},
		{name: "caller's deadline", bound: 50 * time.Millisecond, code: codes.DeadlineExceeded},
	} {
		for kind, rule := range map[string]func(...core.CallOption) lockgrpc.Rule{
			"stream": func(o ...core.CallOption) lockgrpc.Rule {
				return lockgrpc.Serialize(importAll, "group:{group_id}", o...)
			},
			"message": func(o ...core.CallOption) lockgrpc.Rule {
				return lockgrpc.SerializeMessages(importAll, "group:{group_id}", o...)
			},
		} {
			t.Run(tt.name+", "+kind, func(t *testing.T) {
				store, private := tt.store, []string{key, "secret"}
				if store == nil {
					store = memstore.New()
					holder, err := engine(t, store).Acquire(bounded(t), key)
					if err != nil {
						t.Fatal(err)
					}
					defer holder.Release(context.Background())
					private = append(private, holder.Owner())
					if host, err := os.Hostname(); err == nil && len(host) > 3 {
						private = append(private, host)
					}
				}
				var opts []core.CallOption
				if tt.opt != nil {
					opts = append(opts, tt.opt)
				}
				eng := engine(t, store)
				s := &server{importAll: func(stream grpc.ClientStreamingServer[testpb.ImportRequest, testpb.ImportResponse]) error {
					_, err := stream.Recv()
					if err == nil {
						t.Error("the message has its turn")
					}
					return err
				}}
				outside := make(chan error, 1)
				watching := func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
					err := handler(srv, stream)
					outside <- err
					return err
				}
				c := serve(t, s, locks(t, eng, rule(opts...)), grpc.ChainStreamInterceptor(watching))
				if tt.close {
					if err := eng.Close(bounded(t)); err != nil {
						t.Fatal(err)
					}
				}
				ctx := bounded(t)
				if tt.bound > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tt.bound)
					defer cancel()
				}
				stream, err := c.Import(ctx)
				if err != nil {
					t.Fatal(err)
				}
				group := "7"
				if tt.noKey {
					group = ""
				}
				_ = stream.Send(&testpb.ImportRequest{GroupId: group})
				_, err = stream.CloseAndRecv()

				if status.Code(err) != tt.code || reason(t, err) != tt.reason {
					t.Errorf("got %v, reason %q; want %v, %q", err, reason(t, err), tt.code, tt.reason)
				}
				if _, ok := detail[*errdetails.RetryInfo](err); ok != tt.retry {
					t.Errorf("RetryInfo: %v, want %v", ok, tt.retry)
				}
				// A stream as a whole may be sent again; not one of which a message
				// was refused.
				if _, ok := lockgrpc.RetryAfter(importAll, err); ok != (tt.retry && kind == "stream") {
					t.Errorf("RetryAfter: %v", ok)
				}
				inside := wait(t, outside, "end")
				if tt.is != nil && !errors.Is(inside, tt.is) {
					t.Errorf("outer interceptors see %v, want %v", inside, tt.is)
				}
				for _, told := range []string{
					prototext.Format(status.Convert(err).Proto()),
					prototext.Format(status.Convert(fmt.Errorf("outer: %w", inside)).Proto()),
				} {
					for _, p := range private {
						if strings.Contains(told, p) {
							t.Errorf("the caller is told %q: %s", p, told)
						}
					}
				}
			})
		}
	}
}
