package sdktest

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/hibiken/asynq"
	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/contrib/instrumentation/github.com/labstack/echo/otelecho"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/grpc"
	health "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	lockasynq "github.com/keyturn/keyturn/middleware/asynq"
	lockecho "github.com/keyturn/keyturn/middleware/echo"
	lockgrpc "github.com/keyturn/keyturn/middleware/grpc"
	lockhttp "github.com/keyturn/keyturn/middleware/http"
	"github.com/keyturn/keyturn/store/memstore"
	"github.com/keyturn/keyturn/tracing"
	"github.com/keyturn/keyturn/tracing/semconv"
)

// The functions here, besides those that set up the SDK, are the code of docs/observability.md.

func newEngine(store driver.Store, secret []byte) (*core.Engine, error) {
	hooks, err := tracing.New(tracing.WithKeySecret(secret)) // the same in all processes: then hashes of keys match
	if err != nil {
		return nil, err
	}
	return core.New(store,
		core.WithHooks(hooks),
		core.WithLogger(slog.New(tracing.LogHandler(slog.Default().Handler()))),
	)
}

// newPrivateEngine shows "user:***" of the key "user:42".
func newPrivateEngine(store driver.Store) (*core.Engine, error) {
	return core.New(store, core.WithKeyFilter(func(key string) string {
		kind, _, _ := strings.Cut(key, ":")
		return kind + ":***"
	}))
}

func TestPrivateEngine(t *testing.T) {
	eng, err := newPrivateEngine(memstore.New())
	must(t, err)
	defer eng.Close(t.Context())
	if got := eng.ShowKey("user:42"); got != "user:***" {
		t.Error(got)
	}
}

// startTelemetry sends spans and metrics over OTLP to where
// OTEL_EXPORTER_OTLP_ENDPOINT says.
func startTelemetry(ctx context.Context) (stop func(context.Context) error, err error) {
	spans, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, err
	}
	metrics, err := otlpmetrichttp.New(ctx)
	if err != nil {
		return nil, err
	}
	tracers := trace.NewTracerProvider(trace.WithBatcher(spans))
	meters := metric.NewMeterProvider(metric.WithReader(metric.NewPeriodicReader(metrics)))
	otel.SetTracerProvider(tracers)
	otel.SetMeterProvider(meters)
	otel.SetTextMapPropagator(propagation.TraceContext{})
	return func(ctx context.Context) error {
		return errors.Join(tracers.Shutdown(ctx), meters.Shutdown(ctx))
	}, nil
}

// serveMetrics has Prometheus fetch the metrics instead.
func serveMetrics(mux *http.ServeMux) error {
	reader, err := exporter.New()
	if err != nil {
		return err
	}
	otel.SetMeterProvider(metric.NewMeterProvider(metric.WithReader(reader)))
	mux.Handle("/metrics", promhttp.Handler())
	return nil
}

func newServer(locks *lockgrpc.Interceptor) *grpc.Server {
	return grpc.NewServer(
		grpc.StatsHandler(otelgrpc.NewServerHandler()), // before any interceptor
		grpc.ChainUnaryInterceptor(locks.Unary()),
		grpc.ChainStreamInterceptor(locks.Stream()),
	)
}

func newRouter(locks *lockecho.Locks, setStatus echo.HandlerFunc) *echo.Echo {
	e := echo.New()
	e.Use(otelecho.Middleware("im"), locks.Middleware) // in this order
	e.PUT("/users/:id/status", setStatus)
	return e
}

func newMux(locks *lockasynq.Locks) *asynq.ServeMux {
	mux := asynq.NewServeMux()
	mux.Use(lockasynq.Trace, locks.Middleware) // in this order
	return mux
}

func newTask(ctx context.Context, payload []byte) *asynq.Task {
	return asynq.NewTaskWithHeaders("im:message", payload, lockasynq.TraceHeaders(ctx, nil))
}

// TestWiring runs the page's code against a collector.
func TestWiring(t *testing.T) {
	var mu sync.Mutex
	seen := make(map[string]string)
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body strings.Builder
		_ = r.Write(&body)
		mu.Lock()
		defer mu.Unlock()
		seen[r.URL.Path] += body.String()
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	stop, err := startTelemetry(bounded(t))
	must(t, err)
	eng, err := newEngine(memstore.New(), []byte("a secret of the whole fleet"))
	must(t, err)
	locks, err := lockasynq.New(eng, lockasynq.Once("im:message", "msg:{payload.id}"))
	must(t, err)
	mux := newMux(locks)
	mux.HandleFunc("im:message", func(context.Context, *asynq.Task) error { return nil })
	ctx, span := otel.Tracer("test").Start(bounded(t), "sender")
	task := newTask(ctx, []byte(`{"id":"8f2c"}`))
	if task.Headers()["traceparent"] == "" {
		t.Error("the task has no trace")
	}
	span.End()
	calls, err := lockgrpc.New(eng, lockgrpc.Serialize(health.Health_Check_FullMethodName, "user:status:{service}"))
	must(t, err)
	newServer(calls).Stop()

	guards, err := lockecho.New(eng, lockhttp.Serialize("PUT /users/:id/status", "user:status:{path.id}"))
	must(t, err)
	routes := newRouter(guards, func(c echo.Context) error { return c.NoContent(http.StatusNoContent) })
	answer := httptest.NewRecorder()
	routes.ServeHTTP(answer, httptest.NewRequest(http.MethodPut, "/users/42/status", http.NoBody))
	check(t, answer.Code == http.StatusNoContent, "status %d", answer.Code)
	must(t, eng.Close(bounded(t)))
	must(t, stop(bounded(t)))
	for path, want := range map[string]string{"/v1/traces": semconv.SpanHold, "/v1/metrics": semconv.MetricWait} {
		check(t, strings.Contains(seen[path], want), "%s: no %s has come", path, want)
	}

	registry := prometheus.NewRegistry() // the program's, of which this test is not the only user
	r, g := prometheus.DefaultRegisterer, prometheus.DefaultGatherer
	t.Cleanup(func() { prometheus.DefaultRegisterer, prometheus.DefaultGatherer = r, g })
	prometheus.DefaultRegisterer, prometheus.DefaultGatherer = registry, registry
	pages := http.NewServeMux()
	must(t, serveMetrics(pages))
	if eng, err = newEngine(memstore.New(), make([]byte, 16)); err != nil {
		t.Fatal(err)
	}
	must(t, eng.Do(bounded(t), "k", func(context.Context) error { return nil }))
	must(t, eng.Close(bounded(t)))
	page := httptest.NewRecorder()
	pages.ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	check(t, strings.Contains(page.Body.String(), "keyturn_wait_duration_seconds_bucket"), "metrics\n%s", page.Body)
}

// TestPagesCodeIsTested: what docs/observability.md shows stands here.
func TestPagesCodeIsTested(t *testing.T) {
	page, err := os.ReadFile(filepath.FromSlash("../../docs/observability.md"))
	must(t, err)
	code, err := os.ReadFile("wiring_test.go")
	must(t, err)
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	check(t, len(blocks) >= 5, "%d blocks of code", len(blocks))
	for _, b := range blocks {
		check(t, strings.Contains(string(code), b[1]), "in the page, but not tested:\n%s", b[1])
	}
}
