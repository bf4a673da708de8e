package redisstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/servertest"
)

// A caller that sends its own request makes the connection, too. go-redis' dial with TLS does not end with a
// context: beside a server that accepted connections and was silent then, callers came back after 5 s.
func TestSilentServerWithTLS(t *testing.T) {
	t.Parallel()
	server, withTLS := startTLS(t)
	var proxy *servertest.Proxy
	s := open(t, server.Client(withTLS, func(o *redis.Options) {
		proxy = servertest.NewProxy(t, o.Addr)
		o.Addr, o.DialTimeout = proxy.Addr(), 20*time.Second
	}))
	release(t, s, lock(t, s, "first", "k", time.Minute)) // a server that answers soon
	proxy.Cut()
	proxy.Blackhole() // accepts connections, and no more
	defer proxy.Cut() // so that dials end
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, err := s.Acquire(ctx, request("second", "k", time.Minute)); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("a silent server: %v", err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("a caller with 100 ms came back after %v", took)
	}
}
