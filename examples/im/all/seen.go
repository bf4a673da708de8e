package main

import (
	"context"
	"errors"

	"github.com/keyturn/keyturn/examples/im/node"
	"github.com/keyturn/keyturn/examples/im/observe"
	"github.com/keyturn/keyturn/examples/im/report"
	"github.com/keyturn/keyturn/examples/im/run"
)

// seen is a fleet with telemetry, for somebody who looks at it until Ctrl-C.
type seen struct {
	addrs     []string // of the gateways
	here      *node.Node
	collector *observe.Collector
}

// runSeen starts such a fleet, calls act, and ends the fleet. act returns when its context ends, or before
// that with an error.
func runSeen(ctx context.Context, cfg node.Config, p *report.Progress, act func(context.Context, seen) error) (err error) {
	collector, err := observe.Collect()
	if err != nil {
		return err
	}
	defer collector.Close()
	telemetry, err := observe.Start(ctx, "client", collector.URL)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, telemetry.Stop(context.WithoutCancel(ctx))) }()
	cfg.Collector = collector.URL
	return run.Fleet(ctx, cfg, p, func(ctx context.Context, addrs []string, here *node.Node) error {
		return act(ctx, seen{addrs: addrs, here: here, collector: collector})
	})
}
