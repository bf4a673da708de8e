package redisstore_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/store/redisstore"
)

// A release by a user who lacked a command for the queue first gave the lock to the waiter, then failed, and was told
// that the lease had been taken: the work before it looked as if others had done it, too.
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
			server.SetUser(t, command)
			release(t, a, g)
		})
	}
}

// TestACommandThatIsNotAllowedIsNamed: Redis says of a script only that the user may not run "this command". Of a release
// the store does not know which it was.
func TestACommandThatIsNotAllowedIsNamed(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for missing, says := range map[string]string{
		"set": "run set,", "evalsha": "run evalsha,", "rpush": "run rpush,", "del": "may not run a command, which the store needs",
	} {
		rules := strings.Replace(" "+aclCommands+" ", " +"+missing+" ", " ", 1)
		s := open(t, as(t, server, aclKeys, aclChannels, rules, aclMessages), redisstore.WithPrefix("lock:"+missing+":"))
		g, err := s.Acquire(within(t, soon), request("a", "k", time.Minute))
		if err == nil && missing == "rpush" {
			req := request("b", "k", time.Minute)
			req.Wait = true
			err = checktest.ErrorOf(s.Acquire(within(t, time.Second), req))
		} else if err == nil {
			err = s.Release(within(t, soon), g)
		}
		text := strings.ToLower(fmt.Sprint(err))
		check(t, strings.Contains(text, says) || strings.Contains(text, "run the '"+missing+"' command"), "without %s: %v", missing, err)
		if missing == "set" {
			_, _, err = s.Begin(within(t, soon), request("a", "k", time.Minute))
			check(t, err != nil && strings.Contains(err.Error(), "run SET,"), "Begin: %v", err)
		}
		_ = s.Close()
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
			eng := engine(t, open(t, as(t, server, aclKeys, aclChannels, aclCommands, aclMessages, "+info")))
			ctx, runs := within(t, 30*time.Second), 0
			once := func() (core.Outcome, error) {
				return eng.Once(ctx, "k", func(context.Context) ([]byte, error) {
					runs++
					server.SetUser(t, "-"+command)
					time.AfterFunc(300*time.Millisecond, func() { server.SetUser(t, "+"+command) })
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
