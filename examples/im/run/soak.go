package run

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/keyturn/keyturn/examples/im/anyredis"
	"github.com/keyturn/keyturn/examples/im/fleet"
	"github.com/keyturn/keyturn/examples/im/node"
	"github.com/keyturn/keyturn/examples/im/report"
)

const (
	soakClients = 16
	soakGroups  = 20
	soakUsers   = 200
)

// errOverfull is the end of a soak in which a lock did not hold.
var errOverfull = errors.New("a group had more members than seats, or one of them twice")

// soaking says how to soak.
type soaking struct {
	storeURL string
	long     time.Duration
	rate     float64   // requests per second of all clients; 0: as many as possible
	samples  io.Writer // gets the samples as CSV; nil: nobody wants them
}

// soaked is what the clients of a soak count.
type soaked struct {
	served, refused, failed atomic.Int64
	unexplained             atomic.Int64           // of those that failed: long after the last fault
	why                     atomic.Pointer[string] // the last of these
	faults                  nemesis
}

func (s *soaked) fail(why string) {
	s.failed.Add(1)
	if !s.faults.recent() {
		s.unexplained.Add(1)
		s.why.Store(&why)
	}
}

// soakInto is soak with the samples in a file; "": nobody wants them.
func soakInto(ctx context.Context, out io.Writer, name string, how soaking, p *report.Progress) (err error) {
	if name == "" {
		return soak(ctx, out, how, p)
	}
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	how.samples = file
	return errors.Join(soak(ctx, out, how, p), file.Close())
}

// soak puts a fleet under load while a nemesis strikes it. It prints a line for each twentieth of the
// time. What a fleet would leak goes up there.
func soak(ctx context.Context, out io.Writer, how soaking, p *report.Progress) (err error) {
	redis, err := anyredis.OpenDurable(ctx)
	if err != nil {
		return err
	}
	defer redis.Close()
	cfg := node.Config{RedisURL: redis.URL, StoreURL: how.storeURL, Run: "im-" + rand.Text()[:10], Guarded: guarded, Soak: true}
	onlooker := cfg
	onlooker.Guarded = false // it takes no locks
	here, err := node.Open(ctx, onlooker)
	if err != nil {
		return err
	}
	defer here.Close()
	p.Say("An IM service of %d gateways and %d services, on %s, for %v", gateways, services, redis, how.long)

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	f := fleet.New(cancel)
	defer func() { err = errors.Join(err, endFleet(ctx, f, here)) }()
	all, err := start(ctx, f, cfg, p)
	if err != nil {
		return err
	}
	loaded, enough := context.WithTimeout(ctx, how.long)
	defer enough()
	// The first of each role lives as long as the soak. So what leaks there is seen.
	sum := &soaked{faults: nemesis{fleet: f, redis: redis, here: here, victims: []*member{all[services-1], all[services+gateways-1]}}}
	stayers := []string{all[0].name, all[services].name}
	var working sync.WaitGroup
	for range soakClients {
		working.Go(func() { sum.play(loaded, addresses(all, "gateway"), how.rate/soakClients) })
	}
	working.Go(func() {
		if err := sum.faults.strike(loaded, how.long/120); err != nil {
			cancel(err)
		}
	})
	overfull, err := sum.watch(loaded, out, how, here, stayers)
	working.Wait()
	if why := sum.why.Load(); why != nil {
		p.Say("The last request that failed without a fault: %s", *why)
	}
	switch {
	case err != nil:
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case overfull > 0:
		return fmt.Errorf("%w: %d times", errOverfull, overfull)
	}
	return nil
}

// play is one client: joins, leaves and reports of a status, one after the other. With a rate, in requests
// per second, all clients send at the same moments: otherwise few would meet at a key.
func (s *soaked) play(ctx context.Context, addrs []string, rate float64) {
	client := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for ctx.Err() == nil {
		if rate > 0 {
			pause := time.Duration(float64(time.Second) / rate)
			Rest(ctx, time.Until(time.Now().Truncate(pause).Add(pause)))
		}
		s.request(ctx, client, addrs[mathrand.IntN(len(addrs))])
	}
}

// request sends one request, and counts what became of it.
func (s *soaked) request(ctx context.Context, client *http.Client, addr string) {
	method, path := http.MethodPut, fmt.Sprintf("/groups/%d/members/%d", mathrand.IntN(soakGroups), mathrand.IntN(soakUsers))
	body := "" // a server that does not read it would not notice that the client has left
	switch mathrand.IntN(3) {
	case 0:
		method = http.MethodDelete
	case 1:
		path, body = fmt.Sprintf("/users/%d/status", mathrand.IntN(soakUsers)), `{"device":"phone","status":"here"}`
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+addr+path, strings.NewReader(body))
	if err != nil {
		s.fail(err.Error())
		return
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err == nil {
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
	switch {
	case ctx.Err() != nil:
	case err != nil:
		s.fail(err.Error())
	case resp.StatusCode < http.StatusBadRequest:
		s.served.Add(1)
	case resp.Header.Get("Retry-After") != "":
		s.refused.Add(1)
	default:
		s.fail(method + " " + path + ": " + resp.Status)
	}
}
