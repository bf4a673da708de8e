package redlock_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/store/redlock"
)

// A node that is down, one that evicts, and ones that forget although they must not.
func TestExamine(t *testing.T) {
	t.Parallel()
	good := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	evicts := redistest.Start(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru", "--appendonly", "yes")
	down := redistest.Start(t)
	var clients []*redis.Client
	for _, s := range []*redistest.Server{good, evicts, down} {
		clients = append(clients, s.Client(func(o *redis.Options) { o.MaxRetries = -1 }))
	}
	down.Kill()
	finds(t, over(t, clients, redlock.WithPersistent()), "nodes", "maxmemory-policy of "+evicts.Addr(), "appendonly of "+evicts.Addr(), "node of "+down.Addr())
}

// A node that follows another one, and one whose user may not ask whether it was started anew, give no vote.
func TestExamineNodesWithoutVote(t *testing.T) {
	servertest.LongParallel(t)
	var clients []*redis.Client
	for i := range 5 {
		var args []string
		if i == 1 {
			args = []string{"--replicaof", strings.Replace(clients[0].Options().Addr, ":", " ", 1)}
		}
		server := redistest.Start(t, args...)
		c := server.Client()
		if i == 2 {
			must(t, c.Do(t.Context(), "ACL", "SETUSER", "u", "on", ">p", "~*", "&*", "+@all", "-info").Err())
			c = server.Client(func(o *redis.Options) { o.Username, o.Password = "u", "p" })
		}
		clients = append(clients, c)
	}
	must(t, over(t, []*redis.Client{clients[0], clients[3], clients[4]}).Init(t.Context()))
	finds(t, over(t, clients), "node of "+clients[1].Options().Addr, "node of "+clients[2].Options().Addr)
}

// A node that was started anew without its data, which gives no vote for a while, was called ok. During a rolling
// restart that is what to wait for.
func TestExamineAbstaining(t *testing.T) {
	t.Parallel()
	f := started(t)
	s := f.open(t)
	finds(t, s)
	f.servers[1].Restart(t)
	finds(t, s, "node of "+f.servers[1].Addr())
	for _, found := range s.Describe().Examine(t.Context()) {
		check(t, found.Risk == "" || strings.Contains(found.Risk, "no vote for another "), "%+v", found)
	}
}

// finds wants these risks, and no others.
func finds(t *testing.T, s *redlock.Store, want ...string) {
	t.Helper()
	var risks []string
	for _, f := range s.Describe().Examine(t.Context()) {
		check(t, (f.Risk == "") == (f.Advice == ""), "%+v", f)
		if f.Risk != "" {
			risks = append(risks, f.About)
		}
	}
	check(t, slices.Equal(risks, want), "%q, want %q", risks, want)
}
