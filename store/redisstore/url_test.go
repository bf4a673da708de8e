package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/store/storeurl"
)

// Each scheme leads to its server, with user, password, database and prefix. Close closes the
// client: goleak and the count of connections see it.
func TestURL(t *testing.T) {
	t.Parallel()
	socket := t.TempDir() + "/s"
	server := redistest.Start(t, "--requirepass", "s@cret/?#", "--unixsocket", socket)
	client := server.Client(func(o *redis.Options) { o.Password = "s@cret/?#" })
	ctx := t.Context()
	const password = "s%40cret%2F%3F%23"
	for _, url := range []string{
		fmt.Sprintf("redis://:%s@%s/3?prefix=p:&waiter_lease=9s&pool_size=3", password, server.Addr()),
		fmt.Sprintf("redis+unix://:%s@%s?db=3&prefix=p:", password, socket),
	} {
		s, err := storeurl.Open(ctx, url)
		must(t, err)
		g := lock(t, s, "me", "k", time.Minute)
		there := client.Conn()
		must(t, there.Select(ctx, 3).Err())
		n := there.Exists(ctx, "p:k").Val()
		check(t, n == 1, "%s: no lock in its database", url)
		_ = there.Close()
		release(t, s, g)
		must(t, s.Close())
		wantIs(t, "Acquire", checktest.ErrorOf(s.Acquire(ctx, request("me", "k", time.Minute))), driver.ErrClosed)
		// The server takes note of a connection's end a little later.
		eventually(t, 10*time.Second, "its connections end", func() bool { return strings.Count(client.ClientList(ctx).Val(), "\n") == 1 })
	}
}

// The hosts of redis+sentinel are the Sentinels, those of redis+cluster some nodes.
func TestURLOfSeveralServers(t *testing.T) {
	servertest.LongParallel(t)
	nodes := redistest.StartCluster(t, 3)
	behind := redistest.StartSentinel(t, 1, time.Minute)
	for _, url := range []string{
		"redis+cluster://" + nodes[0].Addr() + "," + nodes[1].Addr() + "?prefix=p:",
		"redis+sentinel://" + behind.Sentinel.Addr() + "/0?master_name=" + redistest.MasterName,
	} {
		s, err := storeurl.Open(t.Context(), url)
		must(t, err)
		for i := range 20 { // on all nodes of the Cluster
			lock(t, s, "me", strconv.Itoa(i), time.Minute)
		}
		wantNil(t, s.Close())
	}
}

// Servers that refuse connections are no silent ones: their client does not dial until the time is over.
func TestURLOfServersThatAreDown(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"redis://127.0.0.1:1", "redis+cluster://127.0.0.1:1", "redis+sentinel://127.0.0.1:1,127.0.0.1:2?master_name=m"} {
		s, err := storeurl.Open(t.Context(), url)
		must(t, err)
		_, err = s.Acquire(within(t, 5*time.Second), request("me", "k", time.Minute))
		check(t, err != nil && strings.Contains(err.Error(), "connection refused"), "%s: %v", url, err)
		wantNil(t, s.Close())
	}
}

// TestURLRefuses: a wrong URL is refused before any I/O. These hosts do not exist, so I/O would fail otherwise.
func TestURLRefuses(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"redis:", "redis://", "redis://a,b", "redis://nowhere.invalid/x", "redis://nowhere.invalid/0/1", "redis://nowhere.invalid?nosuch=1",
		"redis://nowhere.invalid?waiter_lease=soon", "redis://nowhere.invalid?pool_size=x", "redis+unix://host/path", "redis+unix:",
		"redis+sentinel://a,b,c", "redis+sentinel://?master_name=m", "redis+sentinel://a?master_name=m&nosuch=1",
		"redis+cluster://", "redis+cluster://a/1", "redis+cluster://a?nosuch=1",
	} {
		_, err := storeurl.Open(t.Context(), url)
		check(t, errors.Is(err, storeurl.ErrInvalidURL), "%s: %v", url, err)
	}
	for _, url := range []string{
		"redis://:secret@nowhere.invalid?prefix=%7B", "redis://nowhere.invalid?waiter_lease=1ms",
		"redis://nowhere.invalid?replicas=1", "redis+cluster://nowhere.invalid?replicas=1&replica_timeout=1s",
	} {
		_, err := storeurl.Open(t.Context(), url)
		check(t, errors.Is(err, driver.ErrInvalidOption) && !strings.Contains(err.Error(), "secret"), "%s: %v", url, err)
	}
	// A password of which nothing can be read, and one that the server refuses.
	server := redistest.Start(t, "--requirepass", "right")
	s, err := storeurl.Open(t.Context(), "redis://:secret@"+server.Addr())
	must(t, err)
	defer s.Close()
	_, err = s.Acquire(context.WithoutCancel(t.Context()), request("me", "k", time.Minute))
	check(t, err != nil && !strings.Contains(err.Error(), "secret"), "%v", err)
}
