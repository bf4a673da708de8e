package run

import (
	"context"
	"crypto/rand"
	"errors"

	"github.com/keyturn/keyturn/examples/im/anyredis"
	"github.com/keyturn/keyturn/examples/im/fleet"
	"github.com/keyturn/keyturn/examples/im/node"
	"github.com/keyturn/keyturn/examples/im/report"
)

// Fleet starts a fleet with locks, calls act with the addresses of its gateways and a node of this process,
// and ends the fleet. act returns when its context ends, or before that with an error.
func Fleet(ctx context.Context, cfg node.Config, p *report.Progress, act func(ctx context.Context, addrs []string, here *node.Node) error) (err error) {
	redis, err := anyredis.Open(ctx)
	if err != nil {
		return err
	}
	defer redis.Close()
	cfg.RedisURL, cfg.Run, cfg.Guarded = redis.URL, "im-"+rand.Text()[:10], true
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
	if err := act(ctx, addrs, here); err != nil {
		return err
	}
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause // a process ended by itself
	}
	return nil
}
