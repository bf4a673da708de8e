package redlock_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/redlock"
)

// TestPermissions: the user of docs/operations.md can do everything, also wait.
func TestPermissions(t *testing.T) {
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Redlock\n")
	_, rest, found := strings.Cut(section, "ACL SETUSER keyturn ")
	rules, _, ended := strings.Cut(rest, "\n```")
	if !found || !ended {
		t.Fatal("the page has no rules for a user of Redlock")
	}
	f := start(t)
	open := func() *redlock.Store {
		var clients []*redis.Client
		for _, server := range f.servers {
			clients = append(clients, server.Client(func(o *redis.Options) { o.Username, o.Password = "keyturn", "password" }))
		}
		s, err := redlock.New(clients, patient)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	for _, server := range f.servers {
		args := []any{"ACL", "SETUSER", "keyturn"}
		for _, rule := range strings.Fields(rules) {
			args = append(args, rule)
		}
		if err := server.Client().Do(within(t, 5*time.Second), args...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	a, b := open(), open()
	ctx := within(t, 20*time.Second)
	if err := a.Init(ctx); err != nil {
		t.Fatalf("Init: %v", err)
	}
	g := lock(t, a, "one", "key", time.Minute)
	if errs := a.Renew(ctx, []driver.Grant{g}); errs[0] != nil {
		t.Errorf("Renew: %v", errs[0])
	}
	if page, _, err := a.List(ctx, driver.Listing{Prefix: "k", Limit: 10, Records: true}); err != nil || len(page) != 1 {
		t.Errorf("List: %+v, %v", page, err)
	}
	waiting, granted := make(chan struct{}), make(chan error, 1)
	req := request("two", "key", time.Minute)
	req.Wait = true
	req.OnHeld = onHeldOnce(waiting)
	go func() {
		_, err := b.Acquire(ctx, req)
		granted <- err
	}()
	<-waiting
	if err := a.Release(ctx, g); err != nil {
		t.Errorf("Release: %v", err)
	}
	if err := <-granted; err != nil {
		t.Errorf("a wait: %v", err)
	}
	if had, err := a.ForceRelease(ctx, "key", "because"); err != nil || len(had) != 1 {
		t.Errorf("ForceRelease: %+v, %v", had, err)
	}
	for i, server := range f.servers {
		if log := server.Client().Do(context.Background(), "ACL", "LOG").Val(); len(log.([]any)) > 0 {
			t.Errorf("node %d has refused %v", i, log)
		}
	}
}
