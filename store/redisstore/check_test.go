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
		if !errors.As(err, &c) || c.Advice == "" {
			t.Fatalf("not of a check: %v", err)
		}
		about = append(about, c.About)
	}
	return about
}

// TestCheckOfADeadServer says so, and does not take for ever; nor does one of a store
// that is closed.
func TestCheckOfADeadServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, server.Client(func(o *redis.Options) { o.MaxRetries = -1 }))
	server.Kill()
	err := s.Check(within(t, 30*time.Second))
	if !errors.Is(err, driver.ErrUnavailable) || !slices.Equal(found(t, err), []string{"server"}) {
		t.Errorf("want the server to be unavailable, and nothing else, got %v", err)
	}
	_ = s.Close()
	if err := s.Check(within(t, time.Second)); !errors.Is(err, driver.ErrClosed) {
		t.Errorf("want ErrClosed, got %v", err)
	}
}

// TestAdvice: what to do depends on what is wrong.
func TestAdvice(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
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
	} {
		began := time.Now()
		err := open(t, c.client).Check(within(t, 30*time.Second))
		if took := time.Since(began); took > 7*time.Second {
			t.Errorf("%s: took %v, want 5s", name, took)
		}
		if got := found(t, err); !slices.Equal(got, []string{c.about}) || !strings.Contains(err.Error(), c.advice) {
			t.Errorf("%s: found %q, want %q with advice about the %s: %v", name, got, c.about, c.advice, err)
		}
	}
}

// TestImpaired: the engine is told when messages do not arrive, with the reason, and
// when they arrive again.
func TestImpaired(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	server := redistest.Start(t)
	network := servertest.NewProxy(t, server.Addr())
	told := make(chan error, 16)
	s := open(t, &subscribing{UniversalClient: server.Client(), messages: throughProxy(server, network)}, noPolling)
	s.Describe().OnImpaired(func(reason error) { told <- reason })
	next := func() error {
		t.Helper()
		select {
		case reason := <-told:
			return reason
		case <-time.After(20 * time.Second):
			t.Fatal("nothing was told")
			return nil
		}
	}
	lock(t, s, "holder", "k", time.Minute)
	enqueue(t, s, "w", "k", time.Minute)
	network.Blackhole()
	if reason := next(); reason == nil {
		t.Error("told that all is well")
	}
	late := make(chan error, 1)
	s.Describe().OnImpaired(func(reason error) {
		select {
		case late <- reason:
		default:
		}
		told <- reason
	})
	if reason := <-late; reason == nil {
		t.Error("who comes late is not told")
	}
	network.Heal()
	for next() != nil {
	}
}

// TestImpairedFromTheStart: a user without channels is found out before anybody waits.
func TestImpairedFromTheStart(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, as(t, server, aclKeys, aclCommands))
	told := make(chan error, 1)
	s.Describe().OnImpaired(func(reason error) { told <- reason })
	select {
	case reason := <-told:
		var refusal redis.Error
		if !errors.As(reason, &refusal) {
			t.Errorf("told %v", reason)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("nothing was told")
	}
}

// The user of a Cluster is a user of each node. One that was forgotten is found each time.
func TestCheckLooksAtEachMaster(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	nodes := redistest.StartCluster(t, 3)
	for i, node := range nodes {
		rules := []any{"ACL", "SETUSER", "u", "on", ">p", "~*", "&*", "+@all"}
		if i == 1 {
			rules = append(rules, "-evalsha", "-eval")
		}
		if err := node.Client().Do(t.Context(), rules...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nodes[0].Addr()}, Username: "u", Password: "p"})
	t.Cleanup(func() { _ = client.Close() })
	s := open(t, client)
	for range 5 {
		err := s.Check(within(t, 30*time.Second))
		if got := found(t, err); !slices.Equal(got, []string{"locks"}) || !strings.Contains(err.Error(), nodes[1].Addr()) {
			t.Fatalf("found %q: %v", got, err)
		}
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
		if got := found(t, err); !slices.Equal(got, c.want) {
			t.Errorf("%s: found %q, want %q: %v", name, got, c.want, err)
		}
		if name[0] == '+' && !strings.Contains(fmt.Sprint(err), "see Permissions") {
			t.Errorf("without %s: %v", name[1:], err)
		}
		if n := server.Client().DBSize(t.Context()).Val(); n > 1 && name[0] != '+' { // the counter
			t.Errorf("%s: %d keys are left", name, n)
		}
		_ = s.Close()
	}
}
