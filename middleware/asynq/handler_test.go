package lockasynq_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"testing"

	"github.com/hibiken/asynq"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/leveltest"
	"github.com/keyturn/keyturn/internal/shadowtest"
	"github.com/keyturn/keyturn/keytmpl"
	lockasynq "github.com/keyturn/keyturn/middleware/asynq"
	"github.com/keyturn/keyturn/middleware/reasons"
)

func TestErrorHandler(t *testing.T) {
	t.Parallel()
	busy, own := errors.New("busy"), errors.New("own")
	var told *reasons.Refusal
	eng := engine(t)
	h := locks(t, eng, lockasynq.Serialize("t", "k:{payload.id}", core.WithFailFast()),
		lockasynq.Serialize("skip", "k:{payload.id}").OnConflict(lockasynq.Skip)).
		WithErrorHandler(func(_ context.Context, task *asynq.Task, refused *reasons.Refusal) error {
			told = refused
			var rejected *lockasynq.RejectedError
			if task.Type() != "t" || !isAgain(refused.Answer) && !errors.As(refused.Answer, &rejected) {
				t.Errorf("%s: the default is %v", task.Type(), refused.Answer)
			}
			return busy
		}).Middleware(handler(func(context.Context, *asynq.Task) error { return own }))
	run := func(typename, payload string) error { return process(context.Background(), h, typename, payload) }
	if err := run("t", `{"id":1}`); err != own || told != nil {
		t.Errorf("the handler's own error: %v, %+v", err, told)
	}
	hold(t, eng, "k:1")
	if err := run("t", `{"id":1}`); err != busy || told == nil || told.Reason != reasons.LockHeld || told.Rule != "t" || told.Key != "k:1" || told.RetryAfter <= 0 {
		t.Errorf("refused: %v, %+v", err, told)
	}
	wantIs(t, "dropped", run("skip", `{"id":1}`), nil)
	if err := run("t", `{}`); err != busy || told.Reason != reasons.KeyInvalid {
		t.Errorf("no key: %v, %+v", err, told)
	}
}

func TestShadow(t *testing.T) {
	shadowtest.Run(t, func(t testing.TB, eng *core.Engine, once bool, run func(context.Context) error, opts ...core.CallOption) func(string) error {
		rule := lockasynq.Serialize
		if once {
			rule = lockasynq.Once
		}
		h := locks(t, eng, rule("t", "user:{payload.id}", opts...)).
			Middleware(handler(func(ctx context.Context, _ *asynq.Task) error { return run(ctx) }))
		return func(id string) error { return process(context.Background(), h, "t", `{"id":"`+id+`"}`) }
	})
}

// TestLevels: what makes levels is the template's to say, or the key function's.
func TestLevels(t *testing.T) {
	t.Parallel()
	type membership struct{ Group, Member string }
	opts := []core.CallOption{core.WithHierarchy(), core.WithFailFast()}
	for _, rule := range []lockasynq.Rule{
		lockasynq.SerializeFor[membership]("t", fmt.Sprintf(leveltest.Template, "payload.Group", "payload.Member"), opts...),
		lockasynq.SerializeBy("t", func(m membership) string {
			return fmt.Sprintf("group:%s/member:%s", keytmpl.Escape(m.Group), keytmpl.Escape(m.Member))
		}, opts...),
	} {
		eng := engine(t)
		var claims []core.Claim
		h := locks(t, eng, rule).Middleware(handler(func(ctx context.Context, _ *asynq.Task) error {
			lease, _ := core.LeaseFrom(ctx)
			claims = lease.Claims()
			return nil
		}))
		leveltest.Run(t, eng, func(group, member string) []core.Claim {
			payload, err := json.Marshal(membership{group, member})
			must(t, err)
			claims = nil
			err = process(context.Background(), h, "t", string(payload))
			if (claims == nil) != errors.Is(err, core.ErrHeld) || claims != nil && err != nil {
				t.Errorf("claims %v, %v", claims, err)
			}
			return claims
		})
	}
}

// TestTraceGoesAlongWithTheTask, unless a middleware outside has begun a span. proof/sdktest has a server.
// Not parallel: the propagator is the program's.
func TestTraceGoesAlongWithTheTask(t *testing.T) {
	before := otel.GetTextMapPropagator()
	t.Cleanup(func() { otel.SetTextMapPropagator(before) })
	otel.SetTextMapPropagator(propagation.TraceContext{})
	inTrace := func(id byte) context.Context {
		return trace.ContextWithSpanContext(context.Background(), trace.NewSpanContext(trace.SpanContextConfig{
			TraceID: trace.TraceID{id}, SpanID: trace.SpanID{id}, TraceFlags: trace.FlagsSampled,
		}))
	}
	given := map[string]string{"traceparent": "stale", "user": "42"}
	headers := lockasynq.TraceHeaders(inTrace(7), given)
	check(t, maps.Equal(given, map[string]string{"traceparent": "stale", "user": "42"}) && headers["user"] == "42", "the caller's headers are %v now, and the task has %v", given, headers)
	got := lockasynq.TraceHeaders(context.Background(), nil)
	check(t, got != nil && len(got) == 0, "without a trace: headers %#v, want an empty map", got)
	for name, tt := range map[string]struct {
		ctx     context.Context
		headers map[string]string
		want    byte
	}{
		"the producer's":  {context.Background(), headers, 7},
		"an outer span's": {inTrace(1), headers, 1},
		"none":            {context.Background(), nil, 0},
		"no such thing":   {context.Background(), map[string]string{"traceparent": "what's this"}, 0},
	} {
		var in trace.SpanContext
		err := lockasynq.Trace(handler(func(ctx context.Context, _ *asynq.Task) error {
			in = trace.SpanContextFromContext(ctx)
			return nil
		})).ProcessTask(tt.ctx, asynq.NewTaskWithHeaders("t", nil, tt.headers))
		if want := (trace.TraceID{tt.want}); err != nil || in.TraceID() != want || in.SpanID() != (trace.SpanID{tt.want}) || in.IsSampled() != (tt.want > 0) {
			t.Errorf("%s: in the trace %v, want %v; %v", name, in, want, err)
		}
	}
}

var _ asynq.MiddlewareFunc = lockasynq.Trace
