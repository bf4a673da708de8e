package redlock_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/internal/storetest"
	"github.com/keyturn/keyturn/store/redlock"
)

// documentedRules are those of docs/operations.md for the user of a node.
func documentedRules(t *testing.T) []string {
	t.Helper()
	page, err := os.ReadFile("../../docs/operations.md")
	must(t, err)
	_, section, _ := strings.Cut(string(page), "\n## Redlock\n")
	_, rest, found := strings.Cut(section, "ACL SETUSER keyturn ")
	rules, _, ended := strings.Cut(rest, "\n```")
	require(t, found && ended, "the page has no rules for a user of Redlock")
	return strings.Fields(rules)
}

// openAs opens a store whose clients are a user with these rules.
func (f *fleet) openAs(t *testing.T, rules []string) *redlock.Store {
	t.Helper()
	for _, server := range f.servers {
		server.SetUser(t, rules...)
	}
	return over(t, f.clients(func(_ int, o *redis.Options) { o.Username, o.Password = "keyturn", "password" }))
}

// TestExamineFindsWhatAUserMayNotRun: each command in turn, on one node.
func TestExamineFindsWhatAUserMayNotRun(t *testing.T) {
	servertest.LongParallel(t)
	f := start(t)
	rules := documentedRules(t)
	s := f.openAs(t, rules)
	refused := func() (about []string) {
		for _, f := range s.Describe().Examine(t.Context()) {
			if (strings.HasPrefix(f.About, "commands of ") || strings.HasPrefix(f.About, "messages of ")) && f.Risk != "" {
				about = append(about, f.About+": "+f.Risk)
			}
		}
		return about
	}
	check(t, len(refused()) == 0, "Examine misses permissions that the user has")
	node := f.servers[0]
	for _, rule := range rules {
		command, ok := strings.CutPrefix(rule, "+")
		if !ok || slices.Contains([]string{"ping", "info", "scan", "evalsha", "time"}, command) {
			continue // it is not for scripts, or its lack shows elsewhere
		}
		node.SetUser(t, "-"+command)
		all := refused()
		good := len(all) == 1 && strings.Contains(strings.ToLower(all[0]), command) && strings.Contains(all[0], node.Addr())
		check(t, good, "without %s: %q", command, all)
		node.SetUser(t, rule)
	}
	node.SetUser(t, "resetchannels")
	all := refused()
	check(t, len(all) == 1 && strings.Contains(all[0], "channel"), "without channels: %q", all)
	eventually(t, "no probe leaves a key", func() bool { return node.Client().DBSize(t.Context()).Val() == 0 })
}

// TestPermissions: the user of docs/operations.md can do everything, also wait.
func TestPermissions(t *testing.T) {
	rules := documentedRules(t)
	f := start(t)
	a, b := f.openAs(t, rules), f.openAs(t, rules)
	ctx := within(t, 20*time.Second)
	must(t, a.Init(ctx))
	g := lock(t, a, "one", "key", time.Minute)
	must(t, renew(t, a, g))
	page, _, err := a.List(ctx, driver.Listing{Prefix: "k", Limit: 10, Records: true})
	check(t, err == nil && len(page) == 1, "List: %+v, %v", page, err)
	w := storetest.Enqueue(t, b, request("two", "key", time.Minute))
	release(t, a, g)
	w.Granted()
	had, err := a.ForceRelease(ctx, "key", "because")
	check(t, err == nil && len(had) == 1, "ForceRelease: %+v, %v", had, err)
	for i, server := range f.servers {
		log := server.Client().Do(bg, "ACL", "LOG").Val()
		check(t, len(log.([]any)) == 0, "node %d has refused %v", i, log)
	}
}
