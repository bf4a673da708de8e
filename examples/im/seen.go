package main

import (
	"context"
	"crypto/rand"
	"errors"

	"github.com/keyturn/keyturn/examples/im/anyredis"
	"github.com/keyturn/keyturn/examples/im/fleet"
	"github.com/keyturn/keyturn/examples/im/node"
	"github.com/keyturn/keyturn/examples/im/observe"
	"github.com/keyturn/keyturn/examples/im/report"
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
	redis, err := anyredis.Open(ctx)
	if err != nil {
		return err
	}
	defer redis.Close()
	cfg.RedisURL, cfg.Run, cfg.Guarded, cfg.Collector = redis.URL, "im-"+rand.Text()[:10], true, collector.URL
	onlooker := cfg
	onlooker.Guarded = cfg.Show // the console asks for locks; nobody else here does
	here, err := node.Open(ctx, onlooker)
	if err != nil {
		return err
	}
	defer here.Close()
	p.Say("An IM service of %d gateways and %d services, on %s", gateways, services, redis)

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	f := fleet.New(cancel)
	defer func() { err = errors.Join(err, endFleet(ctx, f, here)) }()
	addrs, err := launch(ctx, f, cfg, p)
	if err != nil {
		return err
	}
	if err := act(ctx, seen{addrs: addrs, here: here, collector: collector}); err != nil {
		return err
	}
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause // a process ended by itself
	}
	return nil
}
