package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/hibiken/asynq"

	"github.com/keyturn/keyturn/examples/im/load"
	"github.com/keyturn/keyturn/examples/im/node"
	"github.com/keyturn/keyturn/examples/im/report"
	"github.com/keyturn/keyturn/examples/internal/anyredis"
	"github.com/keyturn/keyturn/examples/internal/fleet"
)

// say tells a person how far the run is.
type say func(format string, args ...any)

// drive runs the load against a fleet without locks, then against one with locks.
func drive(ctx context.Context, tell say) (result report.Result, err error) {
	begin := time.Now()
	redis, err := anyredis.Open(ctx)
	if err != nil {
		return result, err
	}
	defer redis.Close()
	result.Redis = redis.Name
	tell("An IM service of %d gateways and %d services, on %s", gateways, services, redis)
	tell("without keyturn")
	if result.Unguarded, result.UnguardedTook, err = play(ctx, redis.URL, false, tell); err != nil {
		return result, fmt.Errorf("without keyturn: %w", err)
	}
	tell("with keyturn")
	if result.Guarded, result.GuardedTook, err = play(ctx, redis.URL, true, tell); err != nil {
		return result, fmt.Errorf("with keyturn: %w", err)
	}
	tell("")
	result.Seconds = time.Since(begin).Seconds()
	return result, nil
}

// play starts a fleet, puts it under load and ends it. Whatever happens, its processes and its
// data are gone afterwards.
func play(ctx context.Context, redisURL string, guarded bool, tell say) (sum load.Figures, took time.Duration, err error) {
	// A name of its own keeps the fleet's data apart from what others leave in Redis.
	cfg := node.Config{RedisURL: redisURL, Run: "im-" + rand.Text()[:10]}
	here, err := node.Open(cfg) // this process takes no locks
	if err != nil {
		return sum, 0, err
	}
	defer here.Close()

	// If a process ends by itself, the load ends, too.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	f := fleet.New(cancel)
	defer func() {
		if end := endFleet(ctx, f, here); err == nil { // otherwise the first error says more
			err = end
		}
	}()
	cfg.Guarded = guarded
	addrs, err := launch(ctx, f, cfg, tell)
	if err != nil {
		return sum, 0, err
	}
	begin := time.Now()
	sum, err = load.Run(ctx, load.Target{
		Gateways: addrs,
		DB:       here.DB,
		Tasks:    asynq.NewInspectorFromRedisClient(here.Redis),
		Queue:    cfg.Queue(),
	}, tell)
	if err != nil {
		err = explain(ctx, err)
	}
	return sum, time.Since(begin), err
}

// explain prefers the cause of a failure to its first sign: the end of a process to the
// connection that broke because of it, although the broken connection is noticed sooner.
func explain(ctx context.Context, err error) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(200 * time.Millisecond):
		return err
	}
}

// endFleet ends the processes, then deletes what they left in Redis. It does so even after
// Ctrl-C, so it does not use the run's context; it has a short timeout of its own.
func endFleet(ctx context.Context, f *fleet.Fleet, here *node.Node) error {
	if err := f.Stop(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return here.Clean(ctx)
}
