package send

import (
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/store/redisstore/internal/script"
)

// Config is what a sender needs from the store that owns it.
type Config struct {
	Client      redis.UniversalClient
	Names       script.Names
	ReplicaWait time.Duration   // for how long requests wait for replicas
	Life        context.Context // ends when the store closes
	Go          func(func())    // starts a goroutine that the store waits for when it closes
}

// Sender is the only one that sends scripts. Make one with [New]; it is safe for
// concurrent use.
type Sender struct {
	Config
	gather gather
	inline inline
}

// New makes a sender.
func New(cfg Config) *Sender {
	s := &Sender{Config: cfg}
	s.gather.send, s.gather.run = s.sendBatch, cfg.Go
	s.inline.open(cfg)
	return s
}

// Master is the address of the master that has the key's slot, on a Cluster that has
// answered before; otherwise "".
func (s *Sender) Master(key string) string {
	if s.inline.cluster == nil {
		return ""
	}
	if n := s.inline.of(s.Names.Lock(key)); n != nil {
		return n.addr
	}
	return ""
}

// start sends reqs once.
func (s *Sender) start(reqs []*Request) *pending {
	p := newPending(reqs)
	apart := reqs
	if s.Names.Topology() == script.Single {
		var together []*Request
		together, apart = split(reqs)
		s.gather.add(together...)
	}
	if len(apart) > 0 {
		s.Go(func() {
			s.sendOnce(context.Background(), apart)
			for _, r := range apart {
				r.finished()
			}
		})
	}
	return p
}

// split parts those that may leave with others from those that may not.
func split(reqs []*Request) (together, apart []*Request) {
	if !slices.ContainsFunc(reqs, func(r *Request) bool { return !r.shares() }) {
		return reqs, nil // mostly so
	}
	for _, r := range reqs {
		if r.shares() {
			together = append(together, r)
		} else {
			apart = append(apart, r)
		}
	}
	return together, apart
}

// Late is told when requests that nobody waited for any more are back.
type Late interface{ AnsweredLate() }

// LateFunc is a function as a [Late].
type LateFunc func()

// AnsweredLate implements [Late].
func (f LateFunc) AnsweredLate() { f() }

// Await sends reqs and repeats what the server has not run and may run later,
// until ctx ends. It reports whether every request has a reply or an error; if
// not, they are still under way, and a goroutine tells late, if not nil,
// once they are back: go-redis does not leave a connection that hangs
// because a context says so.
//
// The caller keeps the store from closing.
func (s *Sender) Await(ctx context.Context, late Late, reqs []*Request) bool {
	if len(reqs) == 1 && s.sendInline(ctx, reqs[0]) {
		if again, _ := unfinished(reqs); len(again) == 0 {
			return true
		}
	}
	var pause Backoff
	for {
		p := s.start(reqs)
		if !p.wait(ctx) {
			s.awaitLate(p, late, reqs)
			return false
		}
		pendings.Put(p)
		again, wait := unfinished(reqs)
		if len(again) == 0 || wait && !pause.Uneven(ctx) {
			return true
		}
		reqs = again
	}
}

// awaitLate waits for what nobody else waits for any more. On its own, as otherwise its
// closure would cost Await an allocation.
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

// sendOnce sends each request for itself, in one round trip. Behind them goes one
// WAIT, if any of them waits for replicas: it is for all that was written on the same
// connection.
func (s *Sender) sendOnce(ctx context.Context, reqs []*Request) {
	pipe := s.Client.Pipeline()
	sent := make([]script.Sent, len(reqs))
	replicas := 0
	for i, r := range reqs {
		sent[i] = r.Run(ctx, pipe, s.Names)
		replicas = max(replicas, r.Replicas)
	}
	var acks *redis.Cmd
	if replicas > 0 {
		acks = pipe.Do(ctx, "wait", replicas, s.ReplicaWait.Milliseconds())
	}
	_, err := pipe.Exec(ctx)
	for i, r := range reqs {
		_ = sent[i].Finish(err) // which r.Err says, too
		if r.Replicas > 0 && r.Err == nil {
			r.Acks, r.Err = acks.Int64()
		}
		s.inline.heard(r.Slot(s.Names), r.Err)
	}
}

// unfinished picks the requests that the server has refused to run for now, and
// says whether it needs a pause first.
func unfinished(reqs []*Request) (again []*Request, wait bool) {
	for _, r := range reqs {
		switch {
		case r.Err == nil:
			continue
		case script.Unknown(r.Err):
		case script.Temporary(r.Err):
			wait = true
		default:
			continue
		}
		r.Again()
		again = append(again, r)
	}
	return again, wait
}
