package redisstore

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// request is one call of a script. Its result is set when it is back. One that is
// plain has no keys and args.
type request struct {
	script   *redis.Script
	keys     []string
	args     []any
	replicas int   // wait for so many, in the same breath
	brief    brief // what it is about, if it is plain

	self     [1]*request // for alone
	trip     *trip       // what it is part of while under way
	wire     wire
	inFull   bool  // send the source: the server did not know its hash
	value    any   // what the script says
	answered bool  // a group's reply names it
	err      error // why it does not
	acks     int64 // of replicas
}

func newRequest(r *request, script *redis.Script, keys []string, args ...any) *request {
	r.script, r.keys = script, keys
	r.args = append(args, &r.wire)
	return r
}

// name is that of its lock, or another one in the same slot.
func (r *request) name(ks keyspace) string {
	switch {
	case ks.where == single:
		return "" // they all go to one server
	case r.isPlain():
		return ks.prefix + r.brief.key
	}
	return r.keys[0]
}

// alone is the list of nothing but r.
func (r *request) alone() []*request {
	r.self[0] = r
	return r.self[:]
}

// wire goes along as the last argument, which no script reads, and is told by
// the client each time that it writes the request to a connection. The client
// repeats requests whose reply was lost, and an answer means something else if
// an earlier attempt may have done the work already.
type wire struct {
	sent    int       // how often it was written
	refused int       // how often the server said that it had not run it
	first   time.Time // when it was written first
	last    time.Time // and last
}

// wrote notes that it is about to be written.
func (w *wire) wrote(now time.Time) {
	if w.sent == 0 {
		w.first = now
	}
	w.sent++
	w.last = now
}

// MarshalBinary implements encoding.BinaryMarshaler.
func (w *wire) MarshalBinary() ([]byte, error) {
	w.wrote(time.Now())
	return nil, nil
}

// String is for hooks that print commands.
func (w *wire) String() string { return "" }

// possible is how many attempts the server may have run. In a cluster those it
// redirected are among them: the client does not tell us.
func (w *wire) possible() int { return w.sent - w.refused }

const (
	firstPause = 5 * time.Millisecond
	maxPause   = 250 * time.Millisecond
)

// trip is the way of some requests of one caller to the server and back.
type trip struct {
	away atomic.Int32  // requests that are not back
	home chan struct{} // something is sent when all are, and received once
}

// trips are kept for others: most are over at once.
var trips = sync.Pool{New: func() any { return &trip{home: make(chan struct{}, 1)} }}

func newTrip(reqs []*request) *trip {
	t := trips.Get().(*trip)
	t.away.Store(int32(len(reqs)))
	for _, r := range reqs {
		r.trip = t
	}
	return t
}

// lookAfter is when somebody looks whether ctx has ended. Most answers are here long
// before, and to be told of the end of a context costs more than to wait for the
// answer: each of those between it and its root registers the next.
const lookAfter = 10 * time.Millisecond

// lookouts are timers to look by.
var lookouts = sync.Pool{New: func() any { return time.NewTimer(time.Hour) }}

// arrives waits until all are home, and reports false if ctx ends first, or has
// ended when they are late.
func (t *trip) arrives(ctx context.Context) bool {
	timer := lookouts.Get().(*time.Timer)
	timer.Reset(lookAfter)
	select {
	case <-t.home:
		timer.Stop()
		lookouts.Put(timer)
		return true
	case <-timer.C:
		lookouts.Put(timer)
	}
	select {
	case <-t.home:
		return true
	case <-ctx.Done():
		return false
	}
}

// landed notes that a request is back.
func (r *request) landed() {
	if r.trip.away.Add(-1) == 0 {
		r.trip.home <- struct{}{} // the last look at it: another may have it next
	}
}

// depart sends reqs once. They are done when the trip is home; the caller has
// entered the store, or is one of its tasks.
//
// This is the only place that sends scripts.
func (s *Store) depart(reqs []*request) *trip {
	t := newTrip(reqs)
	apart := reqs
	if s.keys.where == single {
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

// call has c run a request that is not plain by its script's hash, or in full if
// that did not do before.
func (r *request) call(ctx context.Context, c redis.Scripter) *redis.Cmd {
	if r.inFull {
		return r.script.Eval(ctx, c, r.keys, r.args...)
	}
	return r.script.EvalSha(ctx, c, r.keys, r.args...)
}

// sendOnce sends each request for itself, in one round trip.
func (s *Store) sendOnce(ctx context.Context, reqs []*request) {
	pipe := s.client.Pipeline()
	cmds, waits, parcels := make([]*redis.Cmd, len(reqs)), make([]*redis.Cmd, len(reqs)), make([]*parcel, len(reqs))
	for i, r := range reqs {
		if r.isPlain() {
			parcels[i] = s.keys.pack(r.alone())
			cmds[i] = parcels[i].call(ctx, pipe, r.inFull)
			continue
		}
		cmds[i] = r.call(ctx, pipe)
		if r.replicas > 0 {
			waits[i] = pipe.Do(ctx, "wait", r.replicas, s.cfg.replicaWait.Milliseconds())
		}
	}
	_, err := pipe.Exec(ctx)
	for i, r := range reqs {
		var value any
		value, r.err = cmds[i].Result()
		if r.err == nil && value == nil {
			// Each command has its own error, but for one case: go-redis sets none
			// when it gives up getting a connection.
			r.err = err
		}
		if w := waits[i]; w != nil && r.err == nil {
			r.acks, r.err = w.Int64()
		}
		s.direct.heard(r.name(s.keys), r.err)
		r.value = value
		if p := parcels[i]; p != nil && r.err == nil {
			_ = p.deliver(cmds[i])
		}
	}
}

// unfinished picks the requests that the server has refused to run for now, and
// says whether it needs a pause first.
func unfinished(reqs []*request) (again []*request, wait bool) {
	for _, r := range reqs {
		switch {
		case r.err == nil:
			continue
		case noScript(r.err):
			r.inFull = true
		case passing(r.err):
			wait = true
		default:
			continue
		}
		r.wire.refused++
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
