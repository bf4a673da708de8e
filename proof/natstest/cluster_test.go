package natstest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/store/natsstore"
)

// cluster starts three servers, and returns them with the addresses for clients.
func cluster(t *testing.T) (servers []*server.Server, addrs string) {
	ports := make([]int, 3)
	var routes []*url.URL
	for i := range ports {
		p, err := servertest.FreePort()
		must(t, err)
		ports[i], routes = p, append(routes, &url.URL{Scheme: "nats", Host: fmt.Sprintf("127.0.0.1:%d", p)})
	}
	var all []string
	for i, p := range ports {
		srv := start(t, server.Options{ServerName: fmt.Sprint("s", i), Routes: routes, Cluster: server.ClusterOpts{Name: "c", Host: "127.0.0.1", Port: p}})
		servers, all = append(servers, srv), append(all, srv.Addr().String())
	}
	return servers, strings.Join(all, ",nats://")
}

// TestLeaderGoes: the leader of the bucket is stopped while processes take turns. There is one holder at a time,
// tokens rise, a majority goes on, and no waiter fails because of it.
func TestLeaderGoes(t *testing.T) {
	t.Parallel()
	servertest.Long(t)
	servers, addrs := cluster(t)
	nc := connect(t, addrs)
	s := open(t, nc, natsstore.WithReplicas(3))
	eventually(t, "the bucket is there", func() bool {
		g, err := s.Acquire(t.Context(), request("k", time.Minute))
		return err == nil && s.Release(t.Context(), g) == nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	var mu sync.Mutex
	var last uint64
	var inside, turns int
	var workers sync.WaitGroup
	for range 4 {
		store := open(t, connect(t, addrs), natsstore.WithReplicas(3))
		workers.Go(func() {
			for ctx.Err() == nil {
				req := request("k", 20*time.Second)
				req.Wait = true
				g, err := store.Acquire(ctx, req)
				if err != nil {
					check(t, ctx.Err() != nil, "a waiter: %v", err)
					continue
				}
				mu.Lock()
				if inside++; inside > 1 || g.Token <= last {
					t.Errorf("%d holders, token %d after %d", inside, g.Token, last)
				}
				last = g.Token
				mu.Unlock()
				time.Sleep(time.Millisecond) // for a second holder to be seen
				mu.Lock()
				inside--
				turns++
				mu.Unlock()
				for {
					err := store.Release(context.WithoutCancel(ctx), g)
					if err == nil || errors.Is(err, driver.ErrLeaseLost) {
						break
					}
				}
			}
		})
	}
	js, err := jetstream.New(nc)
	must(t, err)
	count := func() int { mu.Lock(); defer mu.Unlock(); return turns }
	eventually(t, "turns are taken", func() bool { return count() > 10 })
	leader := ""
	eventually(t, "there is a leader", func() bool {
		st, err := js.Stream(t.Context(), "KV_keyturn")
		if err == nil {
			leader = st.CachedInfo().Cluster.Leader
		}
		return leader != ""
	})
	for _, srv := range servers {
		if srv.Name() == leader {
			stop(srv)
		}
	}
	before := count()
	eventually(t, "turns go on without the first leader", func() bool { return count() > before+20 })
	cancel()
	workers.Wait()
}
