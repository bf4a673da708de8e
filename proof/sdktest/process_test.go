package sdktest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/redis/go-redis/v9"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/observe"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/store/redisstore"
	"github.com/keyturn/keyturn/tracing"
	"github.com/keyturn/keyturn/tracing/semconv"
)

// holderVar has the address of the Redis for the process that holds the key.
const holderVar = "KEYTURN_TEST_HOLDER"

const contended = "user:status:42"

// exported is what a process says of one of its spans.
type exported struct{ Name, TraceID, SpanID string }

// onRedis makes an engine over the Redis at addr.
func onRedis(addr string, obs observe.Hooks) (*core.Engine, func(), error) {
	client := redis.NewClient(&redis.Options{Addr: addr})
	store, err := redisstore.New(client)
	if err != nil {
		return nil, nil, err
	}
	eng, err := core.New(store, core.WithHooks(obs))
	return eng, func() {
		_ = eng.Close(context.Background())
		_ = client.Close()
	}, err
}

// holdUntilTold is the other process: it says when it holds the key, lets go
// when its input ends, and then exports its spans.
func holdUntilTold(addr string) {
	spans := tracetest.NewInMemoryExporter()
	tracers := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	obs, err := tracing.New(tracing.WithTracerProvider(tracers))
	must(err)
	eng, end, err := onRedis(addr, obs)
	must(err)
	ctx, root := tracers.Tracer("test").Start(context.Background(), "the request that holds the key")
	must(eng.Do(ctx, contended, func(context.Context) error {
		fmt.Println("held")
		_, err := io.Copy(io.Discard, os.Stdin)
		return err
	}))
	root.End()
	end()
	var all []exported
	for _, s := range spans.GetSpans() {
		all = append(all, exported{s.Name, s.SpanContext.TraceID().String(), s.SpanContext.SpanID().String()})
	}
	must(json.NewEncoder(os.Stdout).Encode(all))
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// TestWaitLeadsToTheOtherProcess: who waits for a key has a link to the request
// that held it, over the spans that the other process exported.
func TestWaitLeadsToTheOtherProcess(t *testing.T) {
	addr := redistest.Start(t).Addr()
	holder := exec.Command(os.Args[0])
	holder.Env = append(os.Environ(), holderVar+"="+addr)
	holder.Stderr = os.Stderr
	letGo, err := holder.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = holder.Process.Kill() }()
	says := bufio.NewReader(out)
	if line, err := says.ReadString('\n'); line != "held\n" {
		t.Fatalf("the holder says %q, %v", line, err)
	}

	o := watch(t)
	eng, end, err := onRedis(addr, o.obs)
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	_, err = eng.TryAcquire(bounded(t), contended) // refused
	if err == nil {
		t.Fatal("the key is free")
	}
	waited := make(chan error, 1)
	go func() {
		waited <- eng.Do(bounded(t), contended, func(context.Context) error { return nil })
	}()
	await(t, "the request to wait", func() bool { return o.conflicts(t) == 2 })
	_ = letGo.Close()
	if err := <-waited; err != nil {
		t.Fatal(err)
	}
	var theirs []exported
	if err := json.NewDecoder(says).Decode(&theirs); err != nil {
		t.Fatal(err)
	}
	if err := holder.Wait(); err != nil {
		t.Fatal(err)
	}

	var target trace.SpanContext
	for i, asking := range o.named(semconv.SpanAcquire) {
		if n := len(asking.Links()); n != 1 {
			t.Fatalf("request %d has %d links, want 1", i, n)
		}
		if store := attr(asking, semconv.StoreKey); store != "redis" {
			t.Errorf("request %d is said to have asked %q", i, store)
		}
		target = asking.Links()[0].SpanContext
		found := ""
		for _, s := range theirs {
			if s.TraceID == target.TraceID().String() && s.SpanID == target.SpanID().String() {
				found = s.Name
			}
		}
		if found != semconv.SpanAcquire || !target.IsRemote() {
			t.Errorf("request %d links to %v, which is %q of the other process's %v", i, target, found, theirs)
		}
	}
}

// TestLinksFollowHandOffs: a lease that went from hand to hand. Who asks for it in
// the same process gets a link to who has it now, also from a store that only knows
// whom it granted it to; that one is what others are linked to.
func TestLinksFollowHandOffs(t *testing.T) {
	addr := redistest.Start(t).Addr()
	o := watch(t)
	here, end, err := onRedis(addr, o.obs)
	want(t, err, nil)
	defer end()
	there, end, err := onRedis(addr, o.obs)
	want(t, err, nil)
	defer end()
	request := func(name string) (context.Context, trace.Span) {
		return o.tracers.Tracer("test").Start(bounded(t), name)
	}

	latest := func() sdktrace.ReadOnlySpan {
		all := o.named(semconv.SpanAcquire)
		return all[len(all)-1]
	}
	handOff := func() (after, next *core.Lease) {
		first, span := request("first")
		defer span.End()
		lease, err := here.Acquire(first, contended)
		want(t, err, nil)
		handed, before := make(chan *core.Lease, 1), o.conflicts(t)
		second, span := request("second")
		defer span.End()
		go func() {
			lease, err := here.Acquire(second, contended)
			want(t, err, nil)
			handed <- lease
		}()
		await(t, "another to stand in line", func() bool { return o.conflicts(t) == before+1 })
		want(t, lease.Release(first), nil)
		return lease, <-handed
	}
	before, lease := handOff()
	for lease.Owner() != before.Owner() { // a busy machine may take longer than a lease goes from hand to hand
		want(t, lease.Release(bounded(t)), nil)
		before, lease = handOff()
	}
	for name, eng := range map[string]*core.Engine{"first": there, "second": here} {
		ctx, span := request("refused")
		_, err := eng.TryAcquire(ctx, contended)
		want(t, err, core.ErrHeld)
		span.End()
		links := latest().Links()
		if len(links) != 1 || o.path(links[0].SpanContext.SpanID()) != "/"+name+"/"+semconv.SpanAcquire {
			t.Errorf("links %v, want one to the %s one's", links, name)
		}
	}
	want(t, lease.Release(bounded(t)), nil)
}
