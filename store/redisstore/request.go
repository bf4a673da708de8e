package redisstore

import (
	"context"
	"fmt"
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

// call has c run a request that is not plain by its script's hash, or in full if
// that did not do before.
func (r *request) call(ctx context.Context, c redis.Scripter) *redis.Cmd {
	if r.inFull {
		return r.script.Eval(ctx, c, r.keys, r.args...)
	}
	return r.script.EvalSha(ctx, c, r.keys, r.args...)
}

// confirmed is nil if as many replicas have the request's write as it waits for. Else
// it may be forgotten in a failover.
func (r *request) confirmed() error {
	if r.acks < int64(r.replicas) {
		return fmt.Errorf("%w: %d of %d have it", ErrNoReplicas, r.acks, r.replicas)
	}
	return nil
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
