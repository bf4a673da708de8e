package send

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/store/redisstore/internal/script"
)

// Config is what a sender needs from the store that owns it.
type Config struct {
	Client      redis.UniversalClient
	Names       script.Names
	ReplicaWait time.Duration   // how long requests wait for replicas
	Life        context.Context // ends when the store closes
	Go          func(func())    // starts a goroutine that the store waits for when it closes
}

// Sender sends the scripts; nothing else in the store does. Make one with [New]. It is safe for
// concurrent use.
type Sender struct {
	Config
	servers servers
}

// New makes a sender.
func New(cfg Config) *Sender {
	s := &Sender{Config: cfg}
	switch c := cfg.Client.(type) {
	case *redis.ClusterClient:
		s.servers.cluster, s.servers.fresh = c, s.master
		s.servers.slots.cluster, s.servers.slots.Go, s.servers.slots.life = c, cfg.Go, cfg.Life
	case *redis.Client:
		s.servers.only = newServer(c)
		s.servers.only.gather(cfg.Go, true, s.sendGroup)
	default:
		if cfg.Names.Topology() == script.Single {
			s.servers.only = new(server)
			s.servers.only.gather(cfg.Go, true, s.sendGroup)
		}
	}
	return s
}

// master returns a server for a node of a Cluster.
func (s *Sender) master(c *redis.Client) *server {
	n := newServer(c)
	n.gather(s.Go, false, func(batch []*Request) { s.sendQuickly(n, batch) })
	return n
}

// Master returns the address of the master that has the key's slot; "" if the client's Cluster
// has not answered yet, and if the client is of another kind.
func (s *Sender) Master(key string) string {
	if s.servers.cluster == nil {
		return ""
	}
	if n := s.servers.of(s.Names.Lock(key)); n != nil {
		return n.addr
	}
	return ""
}

// Late is called when requests that nobody waited for any more have their answers.
type Late interface{ AnsweredLate() }

// LateFunc makes a [Late] of a function.
type LateFunc func()

// AnsweredLate implements [Late].
func (f LateFunc) AnsweredLate() { f() }

// Await sends reqs. Until ctx ends, it repeats those that the server has not run and may run
// later. It reports whether every request has a reply or an error.
//
// If it reports false, the requests are still under way, because go-redis does not leave a
// connection that hangs when a context ends. A goroutine then calls late, if it is not nil,
// when they have their answers.
//
// The caller keeps the store from closing.
func (s *Sender) Await(ctx context.Context, late Late, reqs []*Request) bool {
	var between backoff
	for {
		if len(reqs) > 1 || !s.sendAlone(ctx, reqs[0]) {
			p := s.start(reqs)
			if !p.wait(ctx) {
				s.awaitLate(p, late, reqs)
				return false
			}
			pendings.Put(p)
		}
		again, wait := unfinished(reqs)
		if len(again) == 0 || wait && !between.pause(ctx) {
			return true
		}
		reqs = again
	}
}

// awaitLate waits for the requests that nobody else waits for any more. It is a function of its
// own because its closure would cost Await an allocation.
func (s *Sender) awaitLate(p *pending, late Late, reqs []*Request) {
	s.Go(func() {
		<-p.done
		pendings.Put(p)
		_, _ = unfinished(reqs)
		if late != nil {
			late.AnsweredLate()
		}
	})
}

// unfinished returns the requests that the server has refused to run for now, and those that
// were sent with too short a timeout. It also says whether they need a pause first. They go the
// ordinary way from now on.
func unfinished(reqs []*Request) (again []*Request, wait bool) {
	for _, r := range reqs {
		if r.Err == nil {
			continue
		}
		quick := r.quick
		r.quick, r.slow = false, true
		switch {
		case quick && !script.Answered(r.Err): // the server may have run it
			again = append(again, r)
			continue
		case script.Unknown(r.Err):
		case quick && redirected(r.Err): // the Cluster's client knows where to ask
		case script.Temporary(r.Err), redirected(r.Err): // redirected: the Cluster's client has followed too many redirects
			wait = true
		default:
			continue
		}
		r.Again()
		again = append(again, r)
	}
	return again, wait
}

func redirected(err error) bool {
	return redis.HasErrorPrefix(err, "MOVED ") || redis.HasErrorPrefix(err, "ASK ")
}
