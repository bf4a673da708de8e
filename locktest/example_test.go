package locktest_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/locktest"
)

// Presence is a program that uses keyturn: the status of users, one change at a
// time for each.
type Presence struct {
	eng *core.Engine
	set func(user, status string) // slow
}

func (p *Presence) Set(ctx context.Context, user, status string) error {
	return p.eng.Do(ctx, "user:status:"+user, func(context.Context) error {
		p.set(user, status)
		return nil
	}, core.WithMaxWait(time.Minute))
}

// This test, and the examples below, are what a user's look like. It runs on synctest's fake clock.
func TestPresenceWhileTheStoreIsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kit := locktest.New(t)
		presence := &Presence{kit.Engine, func(string, string) { t.Error("ran without its lock") }}
		kit.Store.Hang()
		err := presence.Set(t.Context(), "42", "online")
		check(t, errors.Is(err, driver.ErrUnavailable), "error %v", err)
	})
}

// In a test of your own.
func ExampleNew() {
	var t *testing.T // the test's

	synctest.Test(t, func(t *testing.T) {
		kit := locktest.New(t)
		section := locktest.NewSection(t)
		presence := &Presence{kit.Engine, func(user, _ string) {
			defer section.Enter(user)()
			time.Sleep(10 * time.Second) // takes no time: the clock is synctest's
		}}
		var all sync.WaitGroup
		all.Go(func() { _ = presence.Set(t.Context(), "42", "online") })
		all.Go(func() { _ = presence.Set(t.Context(), "42", "away") })
		all.Wait()
		kit.Locks.AssertLocked(t, "user:status:42")
	})
}

// A process that is cut off while another one goes on.
func ExampleKit_Peer() {
	var t *testing.T // the test's

	west := locktest.New(t)
	east := west.Peer(t)
	east.Store.Hang()
	// East's leases are lost within their TTL, then west gets their keys.
	_ = west.Engine
}
