package lockconnect_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"go.uber.org/goleak"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	health "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/locktest"
	lockconnect "github.com/keyturn/keyturn/middleware/connect"
	lockgrpc "github.com/keyturn/keyturn/middleware/grpc"
	"github.com/keyturn/keyturn/middleware/reasons"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var must, wantNil = checktest.Must, checktest.WantNil

// The service is grpc's health check, as its descriptors are at hand.
const (
	check = health.Health_Check_FullMethodName
	watch = health.Health_Watch_FullMethodName
)

type (
	request  = health.HealthCheckRequest
	response = health.HealthCheckResponse
	events   = *connect.ServerStream[response]
)

// handlers are what the tests call; nil ones answer nothing.
type handlers struct {
	check func(context.Context, *request) (*response, error)
	watch func(context.Context, *request, events) error
	outer []connect.Interceptor

	refused lockgrpc.ErrorHandler // nil: the default
}

// client is a client of a running server.
type client struct {
	check *connect.Client[request, response]
	watch *connect.Client[request, response]
}

func (c client) call(service string, header ...string) (*connect.Response[response], error) {
	req := connect.NewRequest(&request{Service: service})
	for i := 0; i+1 < len(header); i += 2 {
		req.Header().Set(header[i], header[i+1])
	}
	return c.check.CallUnary(context.Background(), req)
}

func serve(t testing.TB, h handlers, eng *core.Engine, rules []lockgrpc.Rule, opts ...connect.ClientOption) client {
	t.Helper()
	locks, err := lockconnect.New(eng, rules...)
	must(t, err)
	if h.refused != nil {
		locks = locks.WithErrorHandler(h.refused)
	}
	with := connect.WithInterceptors(append(h.outer, locks)...)
	mux := http.NewServeMux()
	mux.Handle(check, connect.NewUnaryHandler(check, func(ctx context.Context, req *connect.Request[request]) (*connect.Response[response], error) {
		res, err := h.check(ctx, req.Msg)
		if err != nil {
			return nil, err
		}
		return connect.NewResponse(res), nil
	}, with))
	mux.Handle(watch, connect.NewServerStreamHandler(watch, func(ctx context.Context, req *connect.Request[request], stream events) error {
		return h.watch(ctx, req.Msg, stream)
	}, with))
	srv := httptest.NewUnstartedServer(mux)
	srv.EnableHTTP2 = true
	srv.StartTLS()
	t.Cleanup(srv.Close)
	opts = append(opts, connect.WithInterceptors(locks)) // on a client it does nothing
	return client{
		connect.NewClient[request, response](srv.Client(), srv.URL+check, opts...),
		connect.NewClient[request, response](srv.Client(), srv.URL+watch, opts...),
	}
}

// reasonOf returns the reason in the error's details.
func reasonOf(t testing.TB, err error) (code connect.Code, reason string, retry bool) {
	t.Helper()
	var e *connect.Error
	if !errors.As(err, &e) {
		t.Fatalf("%v is no error of connect", err)
	}
	for _, d := range e.Details() {
		value, err := d.Value()
		must(t, err)
		switch v := value.(type) {
		case *errdetails.ErrorInfo:
			reason = v.Reason
		case *errdetails.RetryInfo:
			retry = true
		}
	}
	return e.Code(), reason, retry
}

// TestAnswers: what clients get, in each protocol, and what an outer interceptor sees.
func TestAnswers(t *testing.T) {
	for protocol, opts := range map[string][]connect.ClientOption{"connect": nil, "grpc": {connect.WithGRPC()}, "grpc-web": {connect.WithGRPCWeb()}} {
		t.Run(protocol, func(t *testing.T) {
			kit := locktest.New(t, core.WithLogger(slog.New(slog.DiscardHandler)))
			var seen error
			own := connect.NewError(connect.CodeNotFound, errors.New("no such user"))
			c := serve(t, handlers{
				check: func(ctx context.Context, r *request) (*response, error) {
					if _, ok := core.LeaseFrom(ctx); !ok {
						t.Error("no lease")
					}
					if r.Service == "lost" {
						kit.Store.Lose("user:lost:ann")
					}
					if r.Service == "own" {
						return nil, lockconnect.StatusOf(check, own)
					}
					if r.Service == "inner" { // the handler asks the engine itself
						return nil, lockconnect.StatusOf(check, checktest.ErrorOf(kit.Engine.TryAcquire(ctx, "user:held:ann")))
					}
					return &response{Status: health.HealthCheckResponse_SERVING}, nil
				},
				outer: []connect.Interceptor{connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
					return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
						res, err := next(ctx, req)
						if !req.Spec().IsClient {
							seen = err
						}
						return res, err
					}
				})},
			}, kit.Engine, []lockgrpc.Rule{lockgrpc.Serialize(check, "user:{service}:{metadata.x-tenant}", core.WithFailFast())}, opts...)
			if res, err := c.call("fine", "X-Tenant", "ann"); err != nil || res.Msg.Status != health.HealthCheckResponse_SERVING {
				t.Error(res, err)
			}
			held, err := kit.Peer(t).Engine.Acquire(context.Background(), "user:held:ann")
			must(t, err)
			for service, want := range map[string]struct {
				code   connect.Code
				reason string
				retry  bool
				is     error
			}{
				"held":  {connect.CodeAborted, reasons.LockHeld, true, core.ErrHeld},
				"":      {connect.CodeInvalidArgument, reasons.KeyInvalid, false, nil},
				"lost":  {connect.CodeAborted, reasons.LeaseLost, false, core.ErrLeaseLost},
				"own":   {connect.CodeNotFound, "", false, own},
				"inner": {connect.CodeAborted, reasons.LockHeld, true, core.ErrHeld},
			} {
				_, err := c.call(service, "X-Tenant", "ann")
				if code, reason, retry := reasonOf(t, err); code != want.code || reason != want.reason || retry != want.retry {
					t.Errorf("%q: %v %s, retry %v: %v", service, code, reason, retry, err)
				}
				if want.is != nil && !errors.Is(seen, want.is) || strings.Contains(err.Error(), "ann") {
					t.Errorf("%q: the server sees %v, the client %v", service, seen, err)
				}
			}
			wantNil(t, held.Release(context.Background()))
		})
	}
}

// TestOnceReplays a response of the handler's type, marked as such.
func TestOnceReplays(t *testing.T) {
	runs := 0
	c := serve(t, handlers{check: func(context.Context, *request) (*response, error) {
		runs++
		return &response{Status: health.HealthCheckResponse_SERVING}, nil
	}}, locktest.New(t).Engine, []lockgrpc.Rule{lockgrpc.Once(check, "msg:{metadata.x-id}")})
	for i := range 2 {
		res, err := c.call("a", "X-Id", "1")
		if err != nil || res.Msg.Status != health.HealthCheckResponse_SERVING || (res.Header().Get(lockgrpc.ReplayedHeader) == "true") != (i == 1) {
			t.Errorf("call %d: %v, %v", i, res, err)
		}
	}
	_, err := c.call("b", "X-Id", "1")
	if code, reason, _ := reasonOf(t, err); code != connect.CodeFailedPrecondition || reason != reasons.FingerprintMismatch || runs != 1 {
		t.Errorf("other content: %v %s, %d runs", code, reason, runs)
	}
}

// TestStreams are held as a whole, and end with the lease.
func TestStreams(t *testing.T) {
	kit := locktest.New(t, core.WithLogger(slog.New(slog.DiscardHandler)))
	c := serve(t, handlers{watch: func(ctx context.Context, r *request, stream events) error {
		if l, ok := core.LeaseFrom(ctx); !ok || l.Key() != "user:"+r.Service {
			t.Error("no lease of its key")
		}
		if err := stream.Send(&response{Status: health.HealthCheckResponse_SERVING}); err != nil {
			return err
		}
		if r.Service == "lost" {
			kit.Store.Lose("user:lost")
			<-ctx.Done()
			return stream.Send(&response{})
		}
		return nil
	}}, kit.Engine, []lockgrpc.Rule{lockgrpc.Serialize(watch, "user:{service}", core.WithTTL(300*time.Millisecond), core.WithFailFast())})
	for service, want := range map[string]struct {
		sent   int
		reason string
	}{"fine": {1, ""}, "lost": {1, reasons.LeaseLost}, "": {0, reasons.KeyInvalid}} {
		stream, err := c.watch.CallServerStream(context.Background(), connect.NewRequest(&request{Service: service}))
		must(t, err)
		sent := 0
		for stream.Receive() {
			sent++
		}
		reason := ""
		if stream.Err() != nil {
			_, reason, _ = reasonOf(t, stream.Err())
		}
		if sent != want.sent || reason != want.reason {
			t.Errorf("%q: %d messages, then %s: %v", service, sent, reason, stream.Err())
		}
		stream.Close()
	}
}

func TestWrongRules(t *testing.T) {
	if _, err := lockconnect.New(nil, lockgrpc.Serialize("/no.Such/Method", "{")); !errors.Is(err, core.ErrInvalidOption) || !strings.Contains(err.Error(), "no.Such") {
		t.Error(err)
	}
}
