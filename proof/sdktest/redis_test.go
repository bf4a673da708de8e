package sdktest

import (
	"context"
	"testing"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/store/redisstore"
	"github.com/keyturn/keyturn/tracing/semconv"
)

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
