package redisstore_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/store/redisstore"
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

// TestACommandThatIsNotAllowedIsNamed: Redis says of a script only that the user may not run "this command".
func TestACommandThatIsNotAllowedIsNamed(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for missing, use := range map[string]func(*redisstore.Store) error{
		"set":     nil,
		"evalsha": nil,
		"rpush": func(s *redisstore.Store) error { // a waiter in line
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			req := request("b", "k", time.Minute)
			req.Wait = true
			_, err := s.Acquire(ctx, req)
			return err
		},
	} {
		rules := strings.Replace(" "+aclCommands+" ", " +"+missing+" ", " ", 1)
		s, err := redisstore.New(as(t, server, aclKeys, aclChannels, rules, aclMessages), redisstore.WithPrefix("lock:"+missing+":"))
		must(t, err)
		if _, err = s.Acquire(within(t, soon), request("a", "k", time.Minute)); err == nil && use != nil {
			err = use(s)
		}
		if err == nil || !strings.Contains(strings.ToLower(err.Error()), "run "+missing+",") && !strings.Contains(err.Error(), "run the '"+missing+"' command") {
			t.Errorf("without %s: %v", missing, err)
		}
		_ = s.Close()
	}
	// A release that the server refuses.
	rules := strings.Replace(" "+aclCommands+" ", " +del ", " ", 1)
	s, err := redisstore.New(as(t, server, aclKeys, aclChannels, rules, aclMessages), redisstore.WithPrefix("lock:del:"))
	must(t, err)
	defer s.Close()
	g, err := s.Acquire(within(t, soon), request("a", "k", time.Minute))
	must(t, err)
	if err := s.Release(within(t, soon), g); err == nil || !strings.Contains(err.Error(), "may not run a command, which the store needs") {
		t.Errorf("Release without DEL: %v", err)
	}
}

// A record that the server refused came after the end of the lease: the key was free, nothing was on
// record, and the next caller had the effect once more. Now the lease stays, and the record is sent again.
func TestRecordThatIsRefusedForAWhile(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"set", "del"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			eng, err := core.New(open(t, as(t, server, aclKeys, aclChannels, aclCommands, aclMessages, "+info")))
			must(t, err)
			defer eng.Close(within(t, 5*time.Second))
			ctx, runs := within(t, 30*time.Second), 0
			once := func() (core.Outcome, error) {
				return eng.Once(ctx, "k", func(context.Context) ([]byte, error) {
					runs++
					setUser(t, server, "-"+command)
					time.AfterFunc(300*time.Millisecond, func() { setUser(t, server, "+"+command) })
					return []byte("done"), nil
				})
			}
			for i := range 2 {
				out, err := once()
				check(t, err == nil && string(out.Result) == "done" && out.Duplicate == (i == 1), "%+v, %v", out, err)
			}
			check(t, runs == 1, "%d runs", runs)
		})
	}
}
