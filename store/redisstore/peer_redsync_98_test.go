package redisstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/redistest"
)

// TestOutageIsNotContention is about redsync#98 and rueidislock: one error for
// several causes.
func TestOutageIsNotContention(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	eng := engine(t, server, core.WithMaxWait(300*time.Millisecond), core.WithTTL(10*time.Second))
	other := open(t, server.Client())
	lock(t, other, "holder", "k", time.Minute)
	nothing := func(context.Context) error { return nil }
	if err := eng.Do(context.Background(), "connect", nothing, core.WithMaxWait(10*time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := eng.Acquire(context.Background(), "k"); !errors.Is(err, driver.ErrWaitTimeout) || errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("held: %v", err)
	}
	server.Pause()
	_, err := eng.Acquire(context.Background(), "k")
	server.Resume()
	if !errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrHeld) {
		t.Errorf("outage: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err := eng.Acquire(ctx, "k"); !errors.Is(err, context.Canceled) || errors.Is(err, driver.ErrHeld) || errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("the caller's own end: %v", err)
	}
}
