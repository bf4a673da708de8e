package redisstore_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/redistest"
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
		"line break":                {client, redisstore.WithPrefix("a\r\nb")},
		"invalid UTF-8":             {client, redisstore.WithPrefix("a\xff")},
		"long prefix":               {client, redisstore.WithPrefix(strings.Repeat("p", 1<<20))},
		"no waiter lease":           {client, redisstore.WithWaiterLease(0)},
		"negative waiter lease":     {client, redisstore.WithWaiterLease(-time.Second)},
		"endless waiter lease":      {client, redisstore.WithWaiterLease(1 << 62)},
		"no replicas":               {client, redisstore.WithReplicas(0, time.Second)},
		"replicas without time":     {client, redisstore.WithReplicas(1, 0)},
		"longer than the client":    {client, redisstore.WithReplicas(1, time.Minute)},
		"replicas of a cluster":     {many, redisstore.WithReplicas(1, time.Second)},
		"nil logger":                {client, redisstore.WithLogger(nil)},
		"replicas, but no client":   {nil, redisstore.WithReplicas(1, time.Second)},
		"replicas and a nil client": {typedNil, redisstore.WithReplicas(1, time.Second)},
	} {
		s, err := redisstore.New(c.client, c.opt)
		if s != nil || !errors.Is(err, driver.ErrInvalidOption) {
			t.Errorf("%s: want ErrInvalidOption, got %v", name, err)
		}
		if len(err.Error()) > 1000 {
			t.Errorf("%s: an error of %d bytes", name, len(err.Error()))
		}
	}
	_, err := redisstore.New(nil, redisstore.WithPrefix("{"), redisstore.WithWaiterLease(0))
	if n := strings.Count(err.Error(), "\n"); n != 2 {
		t.Errorf("want three errors in one, got %v", err)
	}
}

func TestRequestsRefusedBeforeIO(t *testing.T) {
	t.Parallel()
	client := redis.NewClient(&redis.Options{Dialer: nil, Addr: "127.0.0.1:1"})
	defer client.Close()
	s := open(t, client)
	good := request("o", "k", time.Minute)
	claims := func(all ...driver.Claim) driver.Request {
		req := good
		req.Claims = all
		return req
	}
	for name, c := range map[string]struct {
		req  driver.Request
		want error
	}{
		"no order":      {claims(driver.Exclusive("b"), driver.Exclusive("a")), driver.ErrInvalidClaim},
		"twice":         {claims(driver.Exclusive("a"), driver.Shared("a")), driver.ErrInvalidClaim},
		"no claim":      {claims(), driver.ErrInvalidClaim},
		"no permits":    {claims(driver.Permit("a", 0)), driver.ErrInvalidClaim},
		"empty key":     {request("o", "", time.Minute), driver.ErrInvalidKey},
		"brace":         {request("o", "foo}bar", time.Minute), driver.ErrInvalidKey},
		"long key":      {request("o", strings.Repeat("k", 1<<20), time.Minute), driver.ErrInvalidKey},
		"no TTL":        {request("o", "k", 0), driver.ErrInvalidOption},
		"negative TTL":  {request("o", "k", -1), driver.ErrInvalidOption},
		"owner: colon":  {request("a:b", "k", time.Minute), driver.ErrInvalidOwner},
		"owner: space":  {request("a b", "k", time.Minute), driver.ErrInvalidOwner},
		"owner: nobody": {request("", "k", time.Minute), driver.ErrInvalidOwner},
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
			if !errors.Is(err, c.want) || errors.Is(err, driver.ErrUnavailable) {
				t.Errorf("%s, %s: want %v, got %v", name, call, c.want, err)
			}
		}
	}
	g := driver.Grant{Owner: "o", Claims: good.Claims, TTL: time.Minute}
	if err := s.Complete(within(t, time.Second), g, driver.Record{}, 0); !errors.Is(err, driver.ErrInvalidOption) {
		t.Errorf("no retention: %v", err)
	}
	for _, req := range []driver.Request{claims(driver.Shared("a")), claims(driver.Permit("a", 2)), claims(driver.Exclusive("a"), driver.Exclusive("b"))} {
		if _, _, err := s.Begin(within(t, time.Second), req); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("Begin of %v: want ErrUnsupported, got %v", req.Claims, err)
		}
		g.Claims = req.Claims
		if err := s.Complete(within(t, time.Second), g, driver.Record{}, time.Minute); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("Complete of %v: want ErrUnsupported, got %v", req.Claims, err)
		}
	}
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
		all.Go(func() {
			if err := s.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		})
	}
	all.Wait()
	if err := w.refused(soon); !errors.Is(err, driver.ErrClosed) {
		t.Errorf("the waiter: want ErrClosed, got %v", err)
	}
	if n, m := waiting(t, server, "k"), subscribers(t, server); n != 0 || m != 0 {
		t.Errorf("%d are in line still, with %d subscriptions", n, m)
	}
	if v, err := client.Get(t.Context(), "lock:k").Result(); err != nil || !strings.HasPrefix(v, "o:") {
		t.Errorf("the lock is %q, %v", v, err)
	}
}

// TestManyRenewals go in batches, and each goes by its own answer.
func TestManyRenewals(t *testing.T) {
	t.Parallel()
	server := database(t)
	s := open(t, server.Client())
	var grants []driver.Grant
	for i := range 1200 {
		owner := "o"
		if i%3 == 0 {
			owner = "other"
		}
		grants = append(grants, lock(t, s, owner, "k"+strings.Repeat("i", i%7)+string(rune('a'+i%26))+time.Duration(i).String(), time.Minute))
		grants[i].Owner = "o"
	}
	server.Client().Del(context.Background(), "lock:"+grants[600].Claims[0].Key)
	server.Client().HSet(context.Background(), "lock:"+grants[600].Claims[0].Key, "field", "value")
	for i, err := range s.Renew(within(t, 5*time.Second), grants) {
		if want := i%3 == 0; errors.Is(err, driver.ErrLeaseLost) != want || (err != nil) != want {
			t.Fatalf("grant %d: %v", i, err)
		}
	}
}

// logBuffer collects what a store writes to its logger.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func (l *logBuffer) option() redisstore.Option {
	return redisstore.WithLogger(slog.New(slog.NewTextHandler(l, nil)))
}

// TestCorruptData is not an outage: nothing may run unlocked because of it.
func TestCorruptData(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	server := database(t)
	s := open(t, server.Client())
	server.Client().Set(ctx, "lock:k", "o:junk", time.Minute)
	_, err := s.Acquire(within(t, time.Second), request("o", "k", time.Minute))
	if !errors.Is(err, redisstore.ErrCorrupt) || errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("token: want ErrCorrupt, got %v", err)
	}
	server.Client().Set(ctx, "{lock:k2}:r", "junk", time.Minute)
	_, _, err = s.Begin(within(t, time.Second), request("o", "k2", time.Minute))
	if !errors.Is(err, redisstore.ErrCorrupt) || errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("record: want ErrCorrupt, got %v", err)
	}
}
