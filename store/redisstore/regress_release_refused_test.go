package redisstore_test

import (
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/redistest"
)

// A release by a user who lacked a command for the queue first gave the lock to the waiter, then
// failed, and was told that the lease had been taken: the work before it looked as if others had
// done it, too.
func TestReleaseByAUserWhoMayNotServeWaiters(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"-lrem", "-hdel", "-publish", "-hget", "-lindex"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			all := []string{aclKeys, aclChannels, aclCommands, aclMessages, "+info"}
			a, b := open(t, as(t, server, all...)), open(t, server.Client())
			g := lock(t, a, "holder", "k", time.Minute)
			enqueue(t, b, "waiter", "k", time.Minute)
			setUser(t, server, command)
			release(t, a, g)
		})
	}
}
