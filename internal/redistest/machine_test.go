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
		if err != nil {
			t.Fatal(err)
		}
		return time.Until(at)
	}
	near := func(got, want time.Duration) {
		t.Helper()
		if d := got - want; d < -patience || d > patience {
			t.Errorf("the clock is %v ahead, want %v", got, want)
		}
	}
	near(now(), 0)
	if err := client.Set(ctx, "k", "v", 30*time.Minute).Err(); err != nil {
		t.Fatal(err)
	}
	machine.Jump(-time.Hour)
	near(now(), -time.Hour)
	if ttl := client.PTTL(ctx, "k").Val(); ttl < time.Hour {
		t.Errorf("the key has %v left", ttl)
	}
	machine.Jump(2 * time.Hour)
	near(now(), time.Hour)
	if n := client.Exists(ctx, "k").Val(); n != 0 {
		t.Error("the key outlived its time")
	}
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
		if err := client.Set(ctx, "k", "v", 0).Err(); err != nil {
			t.Fatal(err)
		}
		return time.Since(began)
	}
	const slow = 300 * time.Millisecond
	machine.SlowDisk(slow)
	if d := took(); d < slow {
		t.Errorf("a write took %v on a disk that takes %v", d, slow)
	}
	machine.SlowDisk(0)
	if !within(patience, func() bool { return took() < slow }) {
		t.Error("the disk stays slow")
	}
}
