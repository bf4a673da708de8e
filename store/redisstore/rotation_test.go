package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/store/redisstore"
)

// TestRotatedPassword: the password of the user changes under a running store, as docs/operations.md
// says. No caller notices, no lease is lost, and messages arrive on a new connection.
func TestRotatedPassword(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	var password atomic.Pointer[string]
	knows := func(pw string) { password.Store(&pw) }
	knows("pw")
	server := redistest.Start(t)
	client := server.Client(func(o *redis.Options) {
		o.CredentialsProvider = func() (string, string) { return "keyturn", *password.Load() }
	})
	disconnect := func() { must(t, server.Client().Do(t.Context(), "client", "kill", "user", "keyturn").Err()) }
	setUser(t, server, "on >pw resetkeys resetchannels -@all", aclKeys, aclChannels, aclCommands, aclMessages)
	c := startTwo(t, client)
	held := acquire(t, c[0], "held")
	work := func() {
		t.Helper()
		wantNil(t, c.work())
	}
	work()
	setUser(t, server, ">new")
	work()
	knows("new")
	work()
	setUser(t, server, "<pw")
	work()
	disconnect() // connections stay what they were when they were made
	work()
	wantIs(t, "a lease that was held all the time", held.Err(), nil)

	// The other way round: the servers change first. Callers get an error that says what is
	// wrong, and none after the client knows the password.
	setUser(t, server, "resetpass >third")
	disconnect()
	err := c.work()
	check(t, errors.Is(err, core.ErrUnavailable) && strings.Contains(err.Error(), "WRONGPASS"), "with an old password: %v", err)
	knows("third")
	eventually(t, 10*time.Second, "the store works again", func() bool { return c.work() == nil })
}

// twoProcesses want the same keys.
type twoProcesses [2]*core.Engine

func startTwo(t *testing.T, client redis.UniversalClient) (two twoProcesses) {
	for i := range two {
		// A waiter that gets no message would ask after 10 s, and its caller has given up by then.
		patient := redisstore.WithWaiterLease(30 * time.Second)
		two[i] = engine(t, open(t, client, patient), core.WithTTL(6*time.Second), core.WithMaxWait(5*time.Second))
	}
	return two
}

// work has callers of both processes take turns for a while. It returns what went wrong.
func (two twoProcesses) work() (all error) {
	errs := make(chan error, 8)
	for i := range cap(errs) {
		go func() {
			var err error
			for n := 0; n < 20 && err == nil; n++ {
				err = two[i%2].Do(bg, fmt.Sprint("k", (i/2+n)%3), func(context.Context) error {
					time.Sleep(time.Millisecond)
					return nil
				})
			}
			errs <- err
		}()
	}
	for range cap(errs) {
		all = errors.Join(all, <-errs)
	}
	return all
}
