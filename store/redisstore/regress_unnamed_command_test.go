package redisstore_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/store/redisstore"
)

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
		if err != nil {
			t.Fatal(err)
		}
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
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	g, err := s.Acquire(within(t, soon), request("a", "k", time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Release(within(t, soon), g); err == nil || !strings.Contains(err.Error(), "may not run a command, which the store needs") {
		t.Errorf("Release without DEL: %v", err)
	}
}
