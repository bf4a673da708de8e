package run

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"time"

	"github.com/hibiken/asynq"

	"github.com/keyturn/keyturn/examples/im/anyredis"
	"github.com/keyturn/keyturn/examples/im/fleet"
	"github.com/keyturn/keyturn/examples/im/load"
	"github.com/keyturn/keyturn/examples/im/node"
	"github.com/keyturn/keyturn/examples/im/report"
)

const (
	services = 2
	gateways = 2
)

// noLocks is for the test that the figures show the difference: the second fleet has no locks either.
const noLocks = "KEYTURN_IM_TEST_NO_LOCKS"

// guarded says whether the second fleet uses locks.
var guarded = os.Getenv(noLocks) == ""

// drive runs the load against a fleet without locks, then against one with locks.
func drive(ctx context.Context, storeURL, database string, p *report.Progress) (result report.Result, err error) {
	begin := time.Now()
	if storeURL != "" {
		if result.Store, err = node.CheckStore(ctx, storeURL); err != nil {
			return result, err
		}
	}
	redis, err := anyredis.Open(ctx)
	if err != nil {
		return result, err
	}
	defer redis.Close()
	result.Redis = redis.Name
	p.Say("An IM service of %d gateways and %d services, on %s", gateways, services, redis)
	if result.Store != "" {
		p.Say("with its locks in %s", result.Store)
	}

	cfg := node.Config{RedisURL: redis.URL, Run: "im-" + rand.Text()[:10]}
	p.Say("without keyturn")
	if result.Unguarded, result.UnguardedTook, err = play(ctx, cfg, p); err != nil {
		return result, fmt.Errorf("without keyturn: %w", err)
	}
	// Another name keeps the second fleet's data apart from what the first left in Redis.
	cfg = node.Config{RedisURL: redis.URL, StoreURL: storeURL, Run: "im-" + rand.Text()[:10], Guarded: guarded}
	p.Say("with keyturn")
	if result.Guarded, result.GuardedTook, err = play(ctx, cfg, p); err != nil {
		return result, fmt.Errorf("with keyturn: %w", err)
	}
	if database != "" {
		p.Say("while workers are killed")
		if result.Killed, err = playKilled(ctx, redis.URL, storeURL, database); err != nil {
			return result, fmt.Errorf("while workers are killed: %w", err)
		}
	}
	p.Say("")
	result.Seconds = time.Since(begin).Seconds()
	return result, nil
}

// play starts a fleet, puts it under load and ends it. Whatever happens, its processes and its
// data are gone afterwards.
func play(ctx context.Context, cfg node.Config, p *report.Progress) (sum load.Figures, took time.Duration, err error) {
	onlooker := cfg
	onlooker.Guarded = false // it takes no locks
	here, err := node.Open(ctx, onlooker)
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
	addrs, err := launch(ctx, f, cfg, p)
	if err != nil {
		return sum, 0, err
	}
	begin := time.Now()
	sum, err = load.Run(ctx, load.Target{
		Gateways: addrs,
		DB:       here.DB,
		Tasks:    asynq.NewInspectorFromRedisClient(here.Redis),
		Queue:    cfg.Queue(),
	}, p)
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

// launch starts the services, then the gateways in front of them, and returns the addresses of
// the gateways.
func launch(ctx context.Context, f *fleet.Fleet, cfg node.Config, p *report.Progress) (addrs []string, err error) {
	all, err := start(ctx, f, cfg, p)
	return addresses(all, "gateway"), err
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

// Rest waits for d, or until ctx ends.
func Rest(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
