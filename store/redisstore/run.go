package redisstore

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/store/redisstore/internal/script"
)

const (
	firstPause = 5 * time.Millisecond
	maxPause   = 250 * time.Millisecond
)

// depart sends reqs once. They are done when the trip is home; the caller has
// entered the store, or is one of its tasks.
//
// This is the only place that sends scripts.
func (s *Store) depart(reqs []*request) *trip {
	t := newTrip(reqs)
	apart := reqs
	if s.keys.Topology() == script.Single {
		var together []*request
		together, apart = split(reqs)
		s.departures.leave(together...)
	}
	if len(apart) > 0 {
		s.tasks.Go(func() {
			s.sendOnce(context.Background(), apart)
			for _, r := range apart {
				r.landed()
			}
		})
	}
	return t
}

// split parts those that may leave with others from those that may not.
func split(reqs []*request) (together, apart []*request) {
	if !slices.ContainsFunc(reqs, func(r *request) bool { return !r.fits() }) {
		return reqs, nil // mostly so
	}
	for _, r := range reqs {
		if r.fits() {
			together = append(together, r)
		} else {
			apart = append(apart, r)
		}
	}
	return together, apart
}

// await sends reqs and repeats what the server has not run and may run later,
// until ctx ends. It reports whether every request has a reply or an error; if
// not, they are still under way, and a goroutine of the store has late, if not nil,
// tidy up once they are back: go-redis does not leave a connection that hangs
// because a context says so.
//
// The caller has entered the store, or is one of its tasks.
func (s *Store) await(ctx context.Context, late tidier, reqs []*request) bool {
	if len(reqs) == 1 && s.sendDirectly(ctx, reqs[0]) {
		if again, _ := unfinished(reqs); len(again) == 0 {
			return true
		}
	}
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		t := s.depart(reqs)
		if !t.arrives(ctx) {
			s.comeLate(t, late, reqs)
			return false
		}
		trips.Put(t)
		again, wait := unfinished(reqs)
		if len(again) == 0 || wait && !sleep(ctx, pause/2+rand.N(pause)) {
			return true
		}
		reqs = again
	}
}

// comeLate waits for what nobody else waits for any more.
func (s *Store) comeLate(t *trip, late tidier, reqs []*request) {
	s.tasks.Go(func() {
		<-t.home
		trips.Put(t)
		_, _ = unfinished(reqs)
		if late != nil {
			late.tidy()
		}
	})
}

// tidier is told to tidy up when the requests are home after all.
type tidier interface{ tidy() }

type tidying func()

func (f tidying) tidy() { f() }

// sendOnce sends each request for itself, in one round trip. Behind them goes one
// WAIT, if any of them waits for replicas: it is for all that was written on the same
// connection.
func (s *Store) sendOnce(ctx context.Context, reqs []*request) {
	pipe := s.client.Pipeline()
	sent := make([]script.Sent, len(reqs))
	replicas := 0
	for i, r := range reqs {
		sent[i] = r.Run(ctx, pipe, s.keys)
		replicas = max(replicas, r.replicas)
	}
	var acks *redis.Cmd
	if replicas > 0 {
		acks = pipe.Do(ctx, "wait", replicas, s.cfg.replicaWait.Milliseconds())
	}
	_, err := pipe.Exec(ctx)
	for i, r := range reqs {
		_ = sent[i].Finish(err) // which r.Err says, too
		if r.replicas > 0 && r.Err == nil {
			r.acks, r.Err = acks.Int64()
		}
		s.direct.heard(r.Slot(s.keys), r.Err)
	}
}

// unfinished picks the requests that the server has refused to run for now, and
// says whether it needs a pause first.
func unfinished(reqs []*request) (again []*request, wait bool) {
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

// sleep reports whether it slept to the end.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
