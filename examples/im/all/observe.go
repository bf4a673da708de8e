package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"

	"github.com/keyturn/keyturn/examples/im/node"
	"github.com/keyturn/keyturn/examples/im/observe"
	"github.com/keyturn/keyturn/examples/im/report"
	"github.com/keyturn/keyturn/examples/im/run"
)

// tracePatience is how long spans may take from one process to another.
const tracePatience = 20 * time.Second

// watch runs a fleet with telemetry. It prints the trace of a request that was blocked, then
// prints where the metrics are, and goes on with a little load until ctx ends. svg names a file
// for a picture of the trace; "": none.
func watch(ctx context.Context, out io.Writer, svg string, p *report.Progress) error {
	return runSeen(ctx, node.Config{}, p, func(ctx context.Context, s seen) error {
		picture, err := blocked(ctx, s.addrs, s.collector)
		if err != nil {
			return err
		}
		if err := picture.WriteText(out); err != nil {
			return err
		}
		if svg != "" {
			if err := writeSVG(picture, svg); err != nil {
				return err
			}
		}
		metrics := s.collector.Metrics()
		fmt.Fprintln(out, "\nMetrics, for Prometheus, until Ctrl-C:")
		for _, process := range slices.Sorted(maps.Keys(metrics)) {
			fmt.Fprintf(out, "  %-10s %s\n", process, metrics[process])
		}
		for ctx.Err() == nil {
			_ = burst(ctx, s.addrs) // the metrics show what fails here
			run.Rest(ctx, time.Second)
		}
		return nil
	})
}

// blocked sends requests until one was blocked and its trace is complete.
func blocked(ctx context.Context, addrs []string, c *observe.Collector) (*observe.Waterfall, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, tracePatience, errors.New("no complete trace of a blocked request"))
	defer cancel()
	for {
		if err := burst(ctx, addrs); err != nil {
			return nil, errors.Join(err, context.Cause(ctx))
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(300 * time.Millisecond): // the spans take some time
		}
		if waited, holder, ok := c.Blocked(); ok {
			return observe.NewWaterfall(waited, holder), nil
		}
	}
}

// burst makes some users join and leave one group at the same time.
func burst(ctx context.Context, addrs []string) error {
	errs := make([]error, 6)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() {
			method := []string{http.MethodPut, http.MethodDelete}[i%2]
			errs[i] = request(ctx, method, fmt.Sprintf("http://%s/groups/hikers/members/%d", addrs[i%len(addrs)], i/2))
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// request sends a request under a span of its own, which it passes to the gateway.
func request(ctx context.Context, method, url string) error {
	ctx, span := otel.Tracer("im").Start(ctx, "client")
	defer span.End()
	req, err := http.NewRequestWithContext(ctx, method, url, http.NoBody)
	if err != nil {
		return err
	}
	otel.GetTextMapPropagator().Inject(ctx, propagation.HeaderCarrier(req.Header))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

func writeSVG(picture *observe.Waterfall, name string) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(picture.WriteSVG(file), file.Close())
}
