package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/keyturn/keyturn/examples/im/anyredis"
	"github.com/keyturn/keyturn/examples/im/fleet"
	"github.com/keyturn/keyturn/examples/im/load"
	"github.com/keyturn/keyturn/examples/im/node"
	"github.com/keyturn/keyturn/examples/im/report"
)

const (
	soakClients = 16
	soakGroups  = 20
	soakUsers   = 200
	soakLines   = 20 // of the table
)

// errOverfull is the end of a soak in which a lock did not hold.
var errOverfull = errors.New("a group had more members than seats, or one of them twice")

// soaked is what the clients of a soak count.
type soaked struct {
	served, refused, failed atomic.Int64
	why                     atomic.Pointer[string] // the last request failed
}

func (s *soaked) fail(why string) {
	s.failed.Add(1)
	s.why.Store(&why)
}

// soak puts a fleet under load for d, while Redis pauses, forgets its scripts and closes
// subscriptions. It prints a line for each twentieth of d. What a fleet would leak goes up there.
func soak(ctx context.Context, out io.Writer, storeURL string, d time.Duration, p *report.Progress) (err error) {
	redis, err := anyredis.Open(ctx)
	if err != nil {
		return err
	}
	defer redis.Close()
	cfg := node.Config{RedisURL: redis.URL, StoreURL: storeURL, Run: "im-" + rand.Text()[:10], Guarded: guarded, Soak: true}
	onlooker := cfg
	onlooker.Guarded = false // it takes no locks
	here, err := node.Open(ctx, onlooker)
	if err != nil {
		return err
	}
	defer here.Close()
	p.Say("An IM service of %d gateways and %d services, on %s, for %v", gateways, services, redis, d)

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	f := fleet.New(cancel)
	defer func() { err = errors.Join(err, endFleet(ctx, f, here)) }()
	addrs, err := launch(ctx, f, cfg, p)
	if err != nil {
		return err
	}
	loaded, enough := context.WithTimeout(ctx, d)
	defer enough()
	var sum soaked
	var all sync.WaitGroup
	for range soakClients {
		all.Go(func() { sum.play(loaded, addrs) })
	}
	all.Go(func() { disturb(loaded, here, d/(3*soakLines)) })
	overfull := sum.watch(loaded, out, here, d/soakLines)
	all.Wait()
	if why := sum.why.Load(); why != nil {
		p.Say("The last request that failed: %s", *why)
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case overfull > 0:
		return fmt.Errorf("%w: %d times", errOverfull, overfull)
	}
	return nil
}

// play is one client: joins, leaves and reports of a status, one after the other.
func (s *soaked) play(ctx context.Context, addrs []string) {
	client := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for ctx.Err() == nil {
		method, path := http.MethodPut, fmt.Sprintf("/groups/%d/members/%d", mathrand.IntN(soakGroups), mathrand.IntN(soakUsers))
		switch mathrand.IntN(3) {
		case 0:
			method = http.MethodDelete
		case 1:
			path = fmt.Sprintf("/users/%d/status", mathrand.IntN(soakUsers))
		}
		req, err := http.NewRequestWithContext(ctx, method, "http://"+addrs[mathrand.IntN(len(addrs))]+path, strings.NewReader(`{"device":"phone","status":"here"}`))
		if err != nil {
			s.fail(err.Error())
			return
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := client.Do(req)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			s.fail(err.Error())
		case resp.StatusCode < http.StatusBadRequest:
			s.served.Add(1)
		case resp.Header.Get("Retry-After") != "":
			s.refused.Add(1)
		default:
			s.fail(resp.Status)
		}
		if err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
	}
}

// disturb does something to the Redis each time that pause is over. An embedded Redis knows few of these
// commands. Connections of the data are left alone: a write that is repeated would be there twice.
func disturb(ctx context.Context, here *node.Node, pause time.Duration) {
	for ctx.Err() == nil {
		rest(ctx, pause)
		command := [][]any{{"client", "pause", 500, "all"}, {"script", "flush"}, {"client", "kill", "type", "pubsub"}}[mathrand.IntN(3)]
		_ = here.Redis.Do(ctx, command...).Err()
	}
}

// watch prints a line after each pause, and returns how often it saw a group that no lock protected.
func (s *soaked) watch(ctx context.Context, out io.Writer, here *node.Node, pause time.Duration) (overfull int) {
	fmt.Fprintln(out, "| after | requests/s | refused | failed | heap, MB | goroutines | connections of Redis | keys in Redis | groups wrong |")
	fmt.Fprintln(out, "|---|---|---|---|---|---|---|---|---|")
	begin := time.Now()
	at, before := begin, int64(0)
	for rest(ctx, pause); ctx.Err() == nil; rest(ctx, pause) {
		for g := range soakGroups {
			members, err := here.DB.Members(ctx, fmt.Sprint(g))
			if err == nil && load.Violations(members) > 0 {
				overfull++
			}
		}
		heap, goroutines := here.Vitals(ctx)
		clients, _ := here.Redis.ClientList(ctx).Result()
		keys := here.Redis.DBSize(ctx).Val()
		if ctx.Err() != nil {
			break // it came too late for some of them
		}
		now, served := time.Now(), s.served.Load()
		fmt.Fprintf(out, "| %v | %.0f | %d | %d | %.0f | %d | %d | %d | %d |\n", now.Sub(begin).Round(time.Second),
			float64(served-before)/now.Sub(at).Seconds(), s.refused.Load(), s.failed.Load(), float64(heap)/(1<<20), goroutines,
			strings.Count(clients, "\n"), keys, overfull)
		at, before = now, served
	}
	return overfull
}
