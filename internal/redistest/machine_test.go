//go:build linux

package redistest

import (
	"testing"
	"time"
)

// TestClockJumps: keys end by the server's clock, and only by it.
func TestClockJumps(t *testing.T) {
	t.Parallel()
	server, machine := StartOnMachine(t)
	client, ctx := server.Client(), t.Context()
	now := func() time.Duration {
		at, err := client.Time(ctx).Result()
		must(t, err)
		return time.Until(at)
	}
	near := func(got, want time.Duration) {
		t.Helper()
		d := got - want
		check(t, d >= -patience && d <= patience, "the clock is %v ahead, want %v", got, want)
	}
	near(now(), 0)
	must(t, client.Set(ctx, "k", "v", 30*time.Minute).Err())
	machine.Jump(-time.Hour)
	near(now(), -time.Hour)
	ttl := client.PTTL(ctx, "k").Val()
	check(t, ttl >= time.Hour, "the key has %v left", ttl)
	machine.Jump(2 * time.Hour)
	near(now(), time.Hour)
	n := client.Exists(ctx, "k").Val()
	check(t, n == 0, "the key outlived its time")
	server.Restart(t)
	near(now(), time.Hour)
}

// TestSlowDisk: a write is answered when the disk has it.
func TestSlowDisk(t *testing.T) {
	t.Parallel()
	server, machine := StartOnMachine(t, KeepData...)
	client, ctx := server.Client(), t.Context()
	took := func() time.Duration {
		began := time.Now()
		must(t, client.Set(ctx, "k", "v", 0).Err())
		return time.Since(began)
	}
	const slow = 300 * time.Millisecond
	machine.SlowDisk(slow)
	d := took()
	check(t, d >= slow, "a write took %v on a disk that takes %v", d, slow)
	machine.SlowDisk(0)
	check(t, within(patience, func() bool { return took() < slow }), "the disk stays slow")
}
