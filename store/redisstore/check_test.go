package redisstore_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/store/redisstore"
)

// found lists what a check is about that went wrong.
func found(t testing.TB, err error) []string {
	t.Helper()
	if err == nil {
		return nil
	}
	var about []string
	for _, err := range err.(interface{ Unwrap() []error }).Unwrap() {
		var c *redisstore.CheckError
		require(t, errors.As(err, &c) && c.Advice != "", "not of a check: %v", err)
		about = append(about, c.About)
	}
	return about
}

// TestAdvice: what to do depends on what is wrong.
func TestAdvice(t *testing.T) {
	servertest.LongParallel(t)
	server := redistest.Start(t, "--requirepass", "secret")
	master := redistest.Start(t)
	replica := redistest.Start(t, "--replicaof", strings.Replace(master.Addr(), ":", " ", 1))
	full := redistest.Start(t, "--maxmemory", "1b")
	paused := redistest.Start(t)
	silent := paused.Client(func(o *redis.Options) { o.ReadTimeout, o.MaxRetries = 8*time.Second, -1 })
	paused.Pause()
	defer paused.Resume()
	for name, c := range map[string]struct {
		client        *redis.Client
		about, advice string
	}{
		"nobody there":   {server.Client(func(o *redis.Options) { o.Addr = "127.0.0.1:1" }), "server", "address"},
		"silent":         {silent, "server", "address"},
		"no password":    {server.Client(), "server", "password"},
		"wrong password": {server.Client(func(o *redis.Options) { o.Password = "guess" }), "server", "password"},
		"a replica":      {replica.Client(), "locks", "master"},
		"no memory":      {full.Client(), "locks", "Memory"},
		"renamed":        {redistest.Start(t, "--rename-command", "SET", "").Client(), "locks", "6.2"},
	} {
		began := time.Now()
		err := open(t, c.client).Check(within(t, 30*time.Second))
		check(t, time.Since(began) < 7*time.Second, "%s: took %v, want 5s", name, time.Since(began))
		check(t, c.about != "server" || errors.Is(err, driver.ErrUnavailable), "%s: %v is no outage", name, err)
		good := slices.Equal(found(t, err), []string{c.about}) && strings.Contains(err.Error(), c.advice)
		check(t, good, "%s: want a problem of %s with advice about the %s: %v", name, c.about, c.advice, err)
	}
}

// TestImpairedFromTheStart: a user without channels is found out before anybody waits.
func TestImpairedFromTheStart(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, as(t, server, aclKeys, aclCommands))
	told := make(chan error, 1)
	s.Describe().OnImpaired(func(reason error) { told <- reason })
	reason := arrives(t, told)
	var refusal redis.Error
	check(t, errors.As(reason, &refusal), "told %v", reason)
}

// The user of a Cluster is a user of each node. One that was forgotten is found each time.
func TestCheckLooksAtEachMaster(t *testing.T) {
	servertest.LongParallel(t)
	nodes := redistest.StartCluster(t, 3)
	for i, node := range nodes {
		as(t, node, "~* &* +@all", []string{"", "-evalsha -eval", ""}[i])
	}
	s := open(t, clusterOf(t, nodes, func(o *redis.ClusterOptions) { o.Username, o.Password = "keyturn", "pw" }))
	for range 5 {
		err := s.Check(within(t, 30*time.Second))
		got := found(t, err)
		require(t, slices.Equal(got, []string{"locks"}) && strings.Contains(err.Error(), nodes[1].Addr()), "found %q: %v", got, err)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	const all = aclKeys + " " + aclChannels + " " + aclCommands + " " + aclMessages + " +info"
	type row struct {
		policy, acl string
		want        []string
	}
	rows := map[string]row{
		"well":              {"noeviction", all, nil},
		"no settings":       {"noeviction", all + " -info", nil},
		"evicts":            {"allkeys-lru", all, []string{"maxmemory-policy"}},
		"no channels":       {"noeviction", all + " resetchannels", []string{"messages"}},
		"may not publish":   {"noeviction", all + " -publish", []string{"messages"}},
		"may not subscribe": {"noeviction", all + " -subscribe", []string{"messages"}},
		"no keys":           {"noeviction", all + " resetkeys", []string{"locks"}},
		"nothing":           {"volatile-lru", "+info", []string{"locks", "messages", "maxmemory-policy"}},
	}
	// Also commands that only waiters need: a user who can hold leases is not enough.
	for _, command := range strings.Fields(aclCommands) {
		if testing.Short() && command != "+hget" {
			continue
		}
		rows[command] = row{"noeviction", all + strings.Replace(command, "+", " -", 1), []string{"locks"}}
	}
	server := redistest.Start(t)
	for name, c := range rows {
		server.Client().FlushAll(t.Context())
		server.Client().ScriptFlush(t.Context())
		set(t, server, "maxmemory-policy", c.policy)
		s := open(t, as(t, server, c.acl))
		err := s.Check(within(t, 30*time.Second))
		got := found(t, err)
		check(t, slices.Equal(got, c.want), "%s: found %q, want %q: %v", name, got, c.want, err)
		permission := name[0] == '+'
		check(t, !permission || strings.Contains(fmt.Sprint(err), "see Permissions"), "without %s: %v", name, err)
		n := server.Client().DBSize(t.Context()).Val()
		check(t, n <= 1 || permission, "%s: %d keys are left", name, n) // the counter
		_ = s.Close()
	}
}
