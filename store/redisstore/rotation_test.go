package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
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
	disconnect := func() {
		if err := server.Client().Do(t.Context(), "client", "kill", "user", "keyturn").Err(); err != nil {
			t.Fatal(err)
		}
	}
	setUser(t, server, "on >pw resetkeys resetchannels -@all", aclKeys, aclChannels, aclCommands, aclMessages)
	c := startTwo(t, client)
	held, err := c.engines[0].Acquire(t.Context(), "held")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = held.Release(context.Background()) }()
	work := func() {
		t.Helper()
		if err := c.work(); err != nil {
			t.Error(err)
		}
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
	if err := held.Err(); err != nil {
		t.Errorf("a lease that was held all the time: %v", err)
	}

	// The other way round: the servers change first. Callers get an error that says what is
	// wrong, and none after the client knows the password.
	setUser(t, server, "resetpass >third")
	disconnect()
	if err := c.work(); !errors.Is(err, core.ErrUnavailable) || !strings.Contains(err.Error(), "WRONGPASS") {
		t.Errorf("with an old password: %v", err)
	}
	knows("third")
	eventually(t, 10*time.Second, "the store works again", func() bool { return c.work() == nil })
}

// twoProcesses are two processes that want the same keys.
type twoProcesses struct{ engines []*core.Engine }

func startTwo(t *testing.T, client redis.UniversalClient) *twoProcesses {
	c := &twoProcesses{}
	for range 2 {
		// A waiter that gets no message would ask after 10 s, and its caller has given up by then.
		eng, err := core.New(open(t, client, redisstore.WithWaiterLease(30*time.Second)), core.WithTTL(6*time.Second), core.WithMaxWait(5*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = eng.Close(within(t, 5*time.Second)) })
		c.engines = append(c.engines, eng)
	}
	return c
}

// work has callers of both processes take turns for a while. It returns what went wrong.
func (c *twoProcesses) work() error {
	var mu sync.Mutex
	var errs []error
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 20 {
				err := c.engines[i%2].Do(context.Background(), fmt.Sprint("k", (i/2+n)%3), func(context.Context) error {
					time.Sleep(time.Millisecond)
					return nil
				})
				if err != nil {
					mu.Lock()
					errs = append(errs, err)
					mu.Unlock()
					return
				}
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}
