package sdktest

import (
	"context"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"go.opentelemetry.io/otel/trace"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/redistest"
	lockasynq "github.com/keyturn/keyturn/middleware/asynq"
	"github.com/keyturn/keyturn/store/memstore"
	"github.com/keyturn/keyturn/store/redisstore"
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
		sender := o.named([]string{"gateway 1", "gateway 2"}[i])[0]
		check(t, once.TraceID() == sender.SpanContext().TraceID(), "processing %d is not in its sender's trace", i+1)
	}
	if links := second.Links(); len(links) != 1 || links[0].SpanContext.TraceID() != first.SpanContext().TraceID() {
		t.Errorf("the duplicate's links: %v, want one to the execution that won", links)
	}
}

// TestWaitLeadsToTheOtherProcess over a real server: who is refused a key, or waits for it, has a link to the request
// that held it, among the spans that another program's SDK has.
func TestWaitLeadsToTheOtherProcess(t *testing.T) {
	const contended = "user:status:42"
	server := redistest.Start(t)
	onRedis := func(o *observed) *core.Engine {
		store, err := redisstore.New(server.Client())
		must(t, err)
		return o.engine(t, store)
	}
	theirs, ours := watch(t), watch(t)
	lease, err := onRedis(theirs).Acquire(bounded(t), contended)
	must(t, err)
	eng := onRedis(ours)
	_, err = eng.TryAcquire(bounded(t), contended)
	want(t, err, core.ErrHeld)
	waited := make(chan error, 1)
	go func() {
		waited <- eng.Do(bounded(t), contended, func(context.Context) error { return nil })
	}()
	await(t, "the request to wait", func() bool { return ours.conflicts(t) == 2 })
	must(t, lease.Release(bounded(t)))
	must(t, <-waited)
	holder := theirs.named(semconv.SpanAcquire)[0].SpanContext()
	for i, asking := range ours.named(semconv.SpanAcquire) {
		if store := attr(asking, semconv.StoreKey); store != "redis" {
			t.Errorf("request %d is said to have asked %q", i, store)
		}
		links := asking.Links()
		if len(links) != 1 || links[0].SpanContext.TraceID() != holder.TraceID() || links[0].SpanContext.SpanID() != holder.SpanID() || !links[0].SpanContext.IsRemote() {
			t.Errorf("request %d has the links %v, want one to the holder's %v", i, links, holder)
		}
	}
}
