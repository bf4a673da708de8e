package lockconnect_test

import (
	"context"
	"errors"
	"fmt"
	"go/scanner"
	"net/http/httptest"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	"github.com/keyturn/keyturn/locktest"
	lockconnect "github.com/keyturn/keyturn/middleware/connect"
	lockgrpc "github.com/keyturn/keyturn/middleware/grpc"
	"github.com/keyturn/keyturn/middleware/reasons"
)

// TestErrorHandler: an error of connect's keeps its code, and gets the details that clients look for.
func TestErrorHandler(t *testing.T) {
	own := connect.NewError(connect.CodeOutOfRange, errors.New("come again"))
	own.Meta().Set("X-Code", "1503")
	kit := locktest.New(t)
	defer ruletest.MustRelease(t, ruletest.MustAcquire(t, kit.Engine, "user:ann"))
	c := serve(t, handlers{refused: func(context.Context, *reasons.Refusal) error { return own }}, kit.Engine,
		[]lockgrpc.Rule{lockgrpc.Serialize(check, "user:{service}", core.WithFailFast())})
	_, err := c.call("ann")
	var got *connect.Error
	if !errors.As(err, &got) || got.Code() != connect.CodeOutOfRange || got.Message() != "come again" || got.Meta().Get("X-Code") != "1503" {
		t.Errorf("%v", err)
	}
	if _, reason, retry := reasonOf(t, err); reason != reasons.LockHeld || !retry {
		t.Errorf("reason %q, retry %v", reason, retry)
	}
}

// TestOwnErrors: an error of connect's keeps its code, also that of a precheck or of a key function.
func TestOwnErrors(t *testing.T) {
	own := fmt.Errorf("wrapped: %w", connect.NewError(connect.CodeUnauthenticated, errors.New("who are you")))
	for name, rule := range map[string]lockgrpc.Rule{
		"precheck":     lockgrpc.Serialize(check, "k").Precheck(func(context.Context, proto.Message) error { return own }),
		"key function": lockgrpc.SerializeKeys(check, func(context.Context, *request) ([]string, error) { return nil, own }),
	} {
		_, err := serve(t, handlers{}, locktest.New(t).Engine, []lockgrpc.Rule{rule}).call("ann")
		if connect.CodeOf(err) != connect.CodeUnauthenticated {
			t.Errorf("%s: %v", name, err)
		}
	}
	list := scanner.ErrorList{{Msg: "the name"}} // a type that cannot be compared
	c := serve(t, handlers{
		check: func(context.Context, *request) (*response, error) { return nil, list },
		watch: func(context.Context, *request, events) error { return list },
	}, locktest.New(t).Engine, []lockgrpc.Rule{lockgrpc.Serialize(check, "k"), lockgrpc.Serialize(watch, "k")})
	_, err := c.call("ann")
	stream, opened := c.watch.CallServerStream(t.Context(), connect.NewRequest(&request{}))
	must(t, opened)
	defer stream.Close()
	for stream.Receive() {
	}
	if connect.CodeOf(err) != connect.CodeUnknown || connect.CodeOf(stream.Err()) != connect.CodeUnknown {
		t.Errorf("a handler's list of errors: %v, of a stream: %v", err, stream.Err())
	}
}

// TestFirstMessages: one that can't be read is answered as connect answers it without a rule.
func TestFirstMessages(t *testing.T) {
	locks, err := lockconnect.New(locktest.New(t).Engine, lockgrpc.Serialize(watch, "user:{service}"))
	must(t, err)
	h := connect.NewServerStreamHandler(watch, func(context.Context, *connect.Request[request], events) error { return nil },
		connect.WithInterceptors(locks), connect.WithReadMaxBytes(50))
	for body, code := range map[string]string{
		"{not json": "invalid_argument",
		`{"service":"` + strings.Repeat("a", 50) + `"}`: "resource_exhausted",
	} {
		req := httptest.NewRequest("POST", watch, strings.NewReader("\x00\x00\x00\x00"+string(rune(len(body)))+body))
		req.Header.Set("Content-Type", "application/connect+json")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, req)
		if answer := w.Body.String(); !strings.Contains(answer, `"code":"`+code+`"`) {
			t.Errorf("%s: %q, want %s", body, answer, code)
		}
	}
}

// TestCoverage: each method of the named services is listed, streams too, and misspelt names are errors.
func TestCoverage(t *testing.T) {
	const service = "grpc.health.v1.Health"
	locks, err := lockconnect.New(locktest.New(t).Engine, lockgrpc.Serialize(check, "service:{service}"))
	must(t, err)
	var all []string
	for _, target := range locks.Coverage(service, "no.such.Service") {
		all = append(all, target.String())
	}
	if got, want := fmt.Sprint(all), "["+check+": serialize service:{service} "; !strings.HasPrefix(got, want) || !strings.Contains(got, watch) {
		t.Errorf("Coverage() = %s, want it to begin with %s and to have %s", got, want, watch)
	}
	wantNil(t, locks.Check(service))
	for says, services := range map[string][]string{
		`"` + check + `": this server does not serve it`: nil,
		`no service "no.such.Service"`:                   {service, "no.such.Service"},
	} {
		if err := locks.Check(services...); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("Check(%q) = %v, want an error with %q", services, err, says)
		}
	}
}
