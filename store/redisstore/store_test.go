package redisstore_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/storetest"
	"github.com/keyturn/keyturn/store/redisstore"
)

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	var typedNil *redis.Client
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer client.Close()
	many := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}})
	defer many.Close()
	for name, c := range map[string]struct {
		client redis.UniversalClient
		opt    redisstore.Option
	}{
		"no client":                 {nil, silent},
		"nil client":                {typedNil, silent},
		"nil option":                {client, nil},
		"brace in the prefix":       {client, redisstore.WithPrefix("a{b")},
		"closing brace":             {client, redisstore.WithPrefix("a}b")},
		"space in the prefix":       {client, redisstore.WithPrefix("a b")},
		"control character":         {client, redisstore.WithPrefix("a\x00b")},
		"invalid UTF-8":             {client, redisstore.WithPrefix("a\xff")},
		"long prefix":               {client, redisstore.WithPrefix(strings.Repeat("p", 1<<20))},
		"no waiter lease":           {client, redisstore.WithWaiterLease(0)},
		"endless waiter lease":      {client, redisstore.WithWaiterLease(1 << 62)},
		"no replicas":               {client, redisstore.WithReplicas(0, time.Second)},
		"replicas without time":     {client, redisstore.WithReplicas(1, 0)},
		"longer than the client":    {client, redisstore.WithReplicas(1, time.Minute)},
		"replicas of a cluster":     {many, redisstore.WithReplicas(1, time.Second)},
		"nil logger":                {client, redisstore.WithLogger(nil)},
		"replicas and a nil client": {typedNil, redisstore.WithReplicas(1, time.Second)},
	} {
		s, err := redisstore.New(c.client, c.opt)
		check(t, s == nil && errors.Is(err, driver.ErrInvalidOption), "%s: want ErrInvalidOption, got %v", name, err)
		check(t, len(err.Error()) <= 1000, "%s: an error of %d bytes", name, len(err.Error()))
	}
	_, err := redisstore.New(nil, redisstore.WithPrefix("{"), redisstore.WithWaiterLease(0))
	n := strings.Count(err.Error(), "\n")
	check(t, n == 2, "want three errors in one, got %v", err)
}

// TestRequestsRefusedBeforeIO: one of each kind. driver.CheckLease and driver.CheckOnce find them.
func TestRequestsRefusedBeforeIO(t *testing.T) {
	t.Parallel()
	client := redis.NewClient(&redis.Options{Dialer: nil, Addr: "127.0.0.1:1"})
	defer client.Close()
	s := open(t, client)
	for name, c := range map[string]struct {
		req  driver.Request
		want error
	}{
		"twice": {claiming("o", driver.Exclusive("a"), driver.Shared("a")), driver.ErrInvalidClaim},
		"brace": {request("o", "foo}bar", time.Minute), driver.ErrInvalidKey},
		"TTL":   {request("o", "k", 0), driver.ErrInvalidOption},
		"owner": {request("a:b", "k", time.Minute), driver.ErrInvalidOwner},
	} {
		ctx := within(t, time.Second)
		g := driver.Grant{Owner: c.req.Owner, Claims: c.req.Claims, TTL: c.req.TTL}
		_, err := s.Acquire(ctx, c.req)
		for call, err := range map[string]error{
			"Acquire":  err,
			"Release":  s.Release(ctx, g),
			"Renew":    s.Renew(ctx, []driver.Grant{g})[0],
			"Complete": s.Complete(ctx, g, driver.Record{}, time.Minute),
		} {
			check(t, errors.Is(err, c.want) && !errors.Is(err, driver.ErrUnavailable), "%s, %s: want %v, got %v", name, call, c.want, err)
		}
	}
	g := driver.Grant{Owner: "o", Claims: []driver.Claim{driver.Exclusive("k")}, TTL: time.Minute}
	wantIs(t, "no retention", s.Complete(within(t, time.Second), g, driver.Record{}, 0), driver.ErrInvalidOption)
	g.Claims = []driver.Claim{driver.Shared("a")}
	_, _, err := s.Begin(within(t, time.Second), claiming("o", g.Claims...))
	wantIs(t, "Begin", err, errors.ErrUnsupported)
	wantIs(t, "Complete", s.Complete(within(t, time.Second), g, driver.Record{}, time.Minute), errors.ErrUnsupported)
}

// TestClosed: Close ends the store's waits and its subscription, and neither a lease nor the client, which is the caller's.
func TestClosed(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client()
	s := open(t, client)
	lock(t, s, "o", "k", time.Minute)
	w := enqueue(t, s, "w", "k", time.Minute)
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() { wantIs(t, "Close", s.Close(), nil) })
	}
	all.Wait()
	wantIs(t, "the waiter", w.Refused(), driver.ErrClosed)
	wantIs(t, "Check", s.Check(within(t, time.Second)), driver.ErrClosed)
	wantEqual(t, "in line", waiting(t, server, "k"), 0)
	wantEqual(t, "subscriptions", subscribers(t, server), 0)
	v, err := client.Get(t.Context(), "lock:k").Result()
	check(t, err == nil && strings.HasPrefix(v, "o:"), "the lock is %q, %v", v, err)
}

// TestManyRenewals go in batches, and each goes by its own answer.
func TestManyRenewals(t *testing.T) {
	server, s := onDatabase(t)
	var grants []driver.Grant
	for i := range 1200 {
		grants = append(grants, lock(t, s, []string{"other", "o", "o"}[i%3], fmt.Sprint("k", strings.Repeat("i", i%7), i), time.Minute))
		grants[i].Owner = "o"
	}
	server.Client().Del(bg, "lock:"+grants[600].Claims[0].Key)
	server.Client().HSet(bg, "lock:"+grants[600].Claims[0].Key, "field", "value")
	for i, err := range s.Renew(within(t, 5*time.Second), grants) {
		lost := i%3 == 0
		require(t, errors.Is(err, driver.ErrLeaseLost) == lost && (err != nil) == lost, "grant %d: %v", i, err)
	}
}

// TestAnUnreadableLine concerns the waiters in it, and not the owner of the lease.
func TestAnUnreadableLine(t *testing.T) {
	server, s := onServer(t)
	for key, end := range map[string]func(driver.Grant) error{
		"downgraded": func(g driver.Grant) error {
			g.Claims = []driver.Claim{driver.Shared("downgraded")}
			return s.Downgrade(within(t, 10*time.Second), g)
		},
		"kept": func(g driver.Grant) error {
			g.MinHold = time.Minute
			return s.Release(within(t, 10*time.Second), g)
		},
	} {
		g := lock(t, s, "o", key, time.Minute)
		w := storetest.Enqueue(t, s, request("w", key, time.Minute))
		cli(t, server, "OK", "SET", "{lock:"+key+"}:s", "x")
		err := end(g)
		check(t, err == nil, "%s: %v", key, err)
		w.Cancel()
	}
}

// TestCorruptData is not an outage: nothing may run unlocked because of it.
func TestCorruptData(t *testing.T) {
	server, s := onDatabase(t)
	server.Client().Set(bg, "lock:k", "o:junk", time.Minute)
	_, err := s.Acquire(within(t, time.Second), request("o", "k", time.Minute))
	check(t, errors.Is(err, redisstore.ErrCorrupt) && !errors.Is(err, driver.ErrUnavailable), "token: want ErrCorrupt, got %v", err)
	server.Client().Set(bg, "{lock:k2}:r", "junk", time.Minute)
	_, _, err = s.Begin(within(t, time.Second), request("o", "k2", time.Minute))
	check(t, errors.Is(err, redisstore.ErrCorrupt) && !errors.Is(err, driver.ErrUnavailable), "record: want ErrCorrupt, got %v", err)
}
