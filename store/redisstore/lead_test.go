package redisstore_test

import (
	"context"
	"fmt"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/redistest"
)

// envLead, if not empty, makes a started process campaign for its key until it is killed.
const envLead = "KEYTURN_TEST_LEAD"

// lead says when the process leads and when it does not any more.
func lead(eng *core.Engine, key string, ttl time.Duration) {
	fmt.Println("campaigns", eng.Lead(context.Background(), key, func(ctx context.Context) error {
		l, _ := core.LeaseFrom(ctx)
		fmt.Println("leads", l.Token())
		<-ctx.Done()
		fmt.Println("deposed")
		return nil
	}, core.WithTTL(ttl)))
}

// TestLeaderIsKilledOrStopped: another process leads within the TTL, with a greater token. The one
// that was stopped finds its context ended when it goes on, and campaigns again.
func TestLeaderIsKilledOrStopped(t *testing.T) {
	t.Parallel()
	const ttl = time.Second
	server := redistest.Start(t)
	var last uint64
	leads := func(p *process) {
		t.Helper()
		token, err := strconv.ParseUint(p.says("leads", startup), 10, 64)
		if err != nil || token <= last {
			t.Errorf("token %d after %d, %v", token, last, err)
		}
		last = token
	}
	campaign := func() *process { return startProcess(t, server, "leader", ttl, envLead+"=1") }
	first := campaign()
	leads(first)
	second := campaign()
	second.says("queued", startup)

	_ = first.cmd.Process.Signal(syscall.SIGSTOP)
	leads(second)
	_ = first.cmd.Process.Signal(syscall.SIGCONT)
	first.says("deposed", startup)
	first.says("queued", startup)

	second.kill()
	leads(first)
	third := campaign()
	third.says("queued", startup)
	first.kill()
	leads(third)
}
