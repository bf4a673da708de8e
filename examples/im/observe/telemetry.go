// Package observe sets up OpenTelemetry's SDK, once per process ([Start]). In production, spans
// go over OTLP to a trace store. Here they go to the process that started the others
// ([Collector]), which draws one blocked request ([Waterfall]).
package observe

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// Telemetry is the telemetry of a process. Stop it at the end of the process.
type Telemetry struct {
	tracers *sdktrace.TracerProvider
	meters  *sdkmetric.MeterProvider
	metrics *http.Server
}

// Start sets the program's global providers and propagator. Everything that uses OpenTelemetry,
// keyturn included, then reports to them. The collector knows the process by its name. The
// process serves its metrics on the loopback interface, in Prometheus' format.
func Start(ctx context.Context, name, collector string) (*Telemetry, error) {
	to := sender{process: name, url: collector}
	registry := prometheus.NewRegistry()
	reader, err := exporter.New(exporter.WithRegisterer(registry), exporter.WithoutScopeInfo())
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	t := &Telemetry{
		tracers: sdktrace.NewTracerProvider(sdktrace.WithBatcher(to, sdktrace.WithBatchTimeout(100*time.Millisecond))),
		meters:  sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)),
		metrics: &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second},
	}
	go t.metrics.Serve(listener) // runs until Stop
	otel.SetTracerProvider(t.tracers)
	otel.SetMeterProvider(t.meters)
	otel.SetTextMapPropagator(propagation.TraceContext{})
	return t, to.send(ctx, Report{Metrics: "http://" + listener.Addr().String() + "/metrics"})
}

// Stop sends what is left and ends what Start began. A nil Telemetry does nothing.
func (t *Telemetry) Stop(ctx context.Context) error {
	if t == nil {
		return nil
	}
	return errors.Join(t.tracers.Shutdown(ctx), t.meters.Shutdown(ctx), t.metrics.Close())
}
