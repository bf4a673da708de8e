package scenario

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/proof/bench/stats"
)

// cost is processor time, of user and system together.
type cost struct{ server, client time.Duration }

// metered runs l, and returns what it cost the servers and this process. Warming up does not
// count.
func (e *Env) metered(ctx context.Context, l load, do func(ctx context.Context, caller int) (time.Duration, error)) (report, cost, error) {
	if _, err := (load{l.callers, 0, l.warm}).run(ctx, do); err != nil && !errors.Is(err, errNothing) {
		return report{}, cost{}, err
	}
	before, err := e.spent(ctx)
	if err != nil {
		return report{}, cost{}, err
	}
	did, err := load{l.callers, 0, l.span}.run(ctx, do)
	if err != nil {
		return report{}, cost{}, err
	}
	after, err := e.spent(ctx)
	return did, cost{after.server - before.server, after.client - before.client}, err
}

// spent is the processor time since the servers and this process began.
func (e *Env) spent(ctx context.Context) (cost, error) {
	var own syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &own); err != nil {
		return cost{}, fmt.Errorf("processor time of this process: %w", err)
	}
	all := cost{client: time.Duration(own.Utime.Nano() + own.Stime.Nano())}
	for _, addr := range e.Addrs {
		d, err := serverTime(ctx, addr)
		if err != nil {
			return cost{}, fmt.Errorf("processor time of %s: %w", addr, err)
		}
		all.server += d
	}
	return all, nil
}

func serverTime(ctx context.Context, addr string) (_ time.Duration, err error) {
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer closing(&err, client)
	info, err := client.Info(ctx, "cpu").Result()
	if err != nil {
		return 0, err
	}
	var sum time.Duration
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name != "used_cpu_sys" && name != "used_cpu_user" {
			continue
		}
		seconds, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, err
		}
		sum += time.Duration(seconds * float64(time.Second))
	}
	if sum == 0 {
		return 0, fmt.Errorf("it does not say: %q", info)
	}
	return sum, nil
}

// figures are the cost of a pair.
func (c cost) figures(did report) []stats.Sample {
	return []stats.Sample{
		micros("server CPU", c.server/time.Duration(did.Done)),
		micros("client CPU", c.client/time.Duration(did.Done)),
	}
}
