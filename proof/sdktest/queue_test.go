package sdktest

import (
	"context"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"go.opentelemetry.io/otel/trace"

	"github.com/keyturn/keyturn/internal/redistest"
	lockasynq "github.com/keyturn/keyturn/middleware/asynq"
	"github.com/keyturn/keyturn/store/memstore"
	"github.com/keyturn/keyturn/tracing/semconv"
)

// TestQueue: a message that two gateways deliver. Each processing is in its
// sender's trace, and that of the second leads to that of the first.
func TestQueue(t *testing.T) {
	o := watch(t)
	locks, err := lockasynq.New(o.engine(t, memstore.New()), lockasynq.Once("im:message", "msg:{payload.id}"))
	must(t, err)
	redis := asynq.RedisClientOpt{Addr: redistest.Start(t).Addr()}
	mux := asynq.NewServeMux()
	mux.Use(lockasynq.Trace, locks.Middleware)
	mux.HandleFunc("im:message", func(ctx context.Context, _ *asynq.Task) error {
		_, span := o.tracers.Tracer("test").Start(ctx, "work")
		span.End()
		return nil
	})
	server := asynq.NewServer(redis, asynq.Config{
		Concurrency: 2, TaskCheckInterval: 10 * time.Millisecond, LogLevel: asynq.FatalLevel,
		IsFailure: lockasynq.IsFailure(nil), RetryDelayFunc: lockasynq.RetryDelay(nil),
	})
	must(t, server.Start(mux))
	t.Cleanup(server.Shutdown)
	client := asynq.NewClient(redis)
	t.Cleanup(func() { _ = client.Close() })

	for i, gateway := range []string{"gateway 1", "gateway 2"} {
		ctx, span := o.tracers.Tracer("test").Start(context.Background(), gateway)
		task := asynq.NewTaskWithHeaders("im:message", []byte(`{"id":"8f2c"}`), lockasynq.TraceHeaders(ctx, nil))
		if _, err := client.EnqueueContext(ctx, task); err != nil {
			t.Fatal(err)
		}
		span.End()
		await(t, "the processing", func() bool { return len(o.named(semconv.SpanOnce)) == i+1 && len(o.open()) == 0 })
	}
	o.compare(t, "queue")

	first, second := o.named(semconv.SpanOnce)[0], o.named(semconv.SpanOnce)[1]
	if first.SpanContext().TraceID() == second.SpanContext().TraceID() {
		t.Error("both gateways' messages are in one trace")
	}
	for i, once := range []trace.SpanContext{first.SpanContext(), second.SpanContext()} {
		if sender := o.named([]string{"gateway 1", "gateway 2"}[i])[0]; once.TraceID() != sender.SpanContext().TraceID() {
			t.Errorf("processing %d is not in its sender's trace", i+1)
		}
	}
	if links := second.Links(); len(links) != 1 || links[0].SpanContext.TraceID() != first.SpanContext().TraceID() {
		t.Errorf("the duplicate's links: %v, want one to the execution that won", links)
	}
}
