//go:build unix

package main

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/servertest"
)

// doctor finds what a store says of itself (each setting has a test beside the store), and what an
// account may not do.
func TestDoctor(t *testing.T) {
	t.Parallel()
	good := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	bad := redistest.Start(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
	sqlite := "sqlite:" + filepath.Join(t.TempDir(), "a.db")
	command(t, "--store", sqlite, "init").ends(0)
	acl(t, good, "viewer", viewer)
	for name, c := range map[string]struct {
		store string
		risks []string
	}{
		"good":   {"redis://" + good.Addr(), nil},
		"bad":    {"redis://" + bad.Addr(), []string{"maxmemory-policy", "appendonly"}},
		"viewer": {"redis://viewer:p@" + good.Addr(), []string{"lock", "locks", "messages"}},
		"sqlite": {sqlite, nil},
		"silent": {"redis://127.0.0.1:1?max_retries=-1", []string{"server"}},
	} {
		p := command(t, "--store", c.store, "--timeout", "2s", "doctor", "-o", "json").start()
		status := 0
		if len(c.risks) > 0 {
			status = 1
		}
		p.ends(status)
		var all []finding
		if err := json.Unmarshal([]byte(p.stdout.String()), &all); err != nil {
			t.Fatalf("%s: %v in %s", name, err, p.stdout.String())
		}
		var risks []string
		for _, f := range all {
			if !f.OK {
				risks = append(risks, f.About)
			}
			check(t, f.OK == (f.Advice == ""), "%s: %+v", name, f)
		}
		check(t, slices.Equal(risks, c.risks), "%s: %q, want %q", name, risks, c.risks)
	}
	command(t, "--store", "sqlite:"+filepath.Join(t.TempDir(), "none.db"), "doctor").ends(78)
}

// The permissions that docs/cli.md gives to those who look, and to those who may free locks.
const (
	viewer   = "~lock:* ~{lock:* -@all +eval +evalsha +time +scan +get +mget +pttl +exists +hgetall +hlen +hget +lrange +llen +zrange +getrange +strlen +ping"
	operator = viewer + " &lock:inbox:* +set +del +pexpire +pexpireat +hset +hdel +hexists +lindex +lpos +rpush +lrem +zadd +zrem +zscore +zcount +zrevrange +zrangebyscore +publish +pubsub|numsub +info"
)

func acl(t *testing.T, s *redistest.Server, name, rules string) {
	t.Helper()
	args := append([]string{"ACL", "SETUSER", name, "on", ">p", "resetkeys", "resetchannels"}, strings.Fields(rules)...)
	if out, err := s.CLI(args...); err != nil || out != "OK" {
		t.Fatalf("%s, %v", out, err)
	}
}

// A viewer may look, and do nothing else; an operator may also free locks. docs/cli.md has these texts.
func TestPermissions(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	server := redistest.Start(t)
	eng := engine(t, "redis://"+server.Addr())
	for _, c := range []struct {
		user, rules string
		force       int
	}{{"viewer", viewer, 77}, {"operator", operator, 0}} {
		acl(t, server, c.user, c.rules)
		store := "redis://" + c.user + ":p@" + server.Addr()
		held(t, eng, "k-"+c.user)
		out := command(t, "--store", store, "ls").ends(0).stdout.String()
		check(t, strings.Contains(out, "k-"+c.user), "%s: %s", c.user, out)
		for _, args := range [][]string{{"show", "k-" + c.user}, {"who"}} {
			command(t, append([]string{"--store", store}, args...)...).ends(0)
		}
		command(t, "--store", store, "force", "k-"+c.user, "--reason", "x", "--yes").ends(c.force)
		forget := 66
		if c.force != 0 {
			forget = c.force
		}
		command(t, "--store", store, "forget", "nothing", "--reason", "x").ends(forget)
	}
	command(t, "--store", "redis://viewer:p@"+server.Addr(), "run", "k", "--wait", "0", "--", "true").ends(77)
}

// On the nodes of a Redlock, a viewer and an operator need one command more.
func TestPermissionsOnRedlock(t *testing.T) {
	servertest.LongParallel(t)
	nodes := make([]string, 3)
	for i := range nodes {
		server := redistest.Start(t)
		acl(t, server, "viewer", viewer+" +info")
		acl(t, server, "operator", operator+" +lpop")
		nodes[i] = server.Addr()
	}
	at := func(user string) string { return "redlock://" + user + strings.Join(nodes, ",") + "?persistent=true" }
	held(t, engine(t, at("")), "k")
	command(t, "--store", at("viewer:p@"), "ls").ends(0).says("k\texclusive")
	command(t, "--store", at("viewer:p@"), "force", "k", "--reason", "x", "--yes").ends(77)
	command(t, "--store", at("operator:p@"), "force", "k", "--reason", "x", "--yes").ends(0)
}
