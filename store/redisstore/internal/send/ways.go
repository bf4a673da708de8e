package send

import (
	"context"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/store/redisstore/internal/script"
)

// sendAlone sends a request on its caller's own goroutine if few others are under way, and reports
// whether it did. To hand the request to another goroutine and back takes longer than
// the answer of a server next door.
//
// But the caller can't leave before go-redis returns. So sendAlone is only for a server that
// has soon answered the last request, and it uses a short timeout. If that is too short, the request
// is sent again in the ordinary way, as go-redis itself would.
func (s *Sender) sendAlone(ctx context.Context, r *Request) bool {
	if r.slow || r.Replicas > 0 || s.servers.cluster == nil && !r.Fits() || ctx.Err() != nil {
		return false
	}
	name := r.Slot(s.Names)
	n := s.servers.quick(name)
	if n == nil || !n.direct || !n.with(r).Enter() {
		return false
	}
	defer n.with(r).Leave()
	limit, ctx := n.limit(ctx)
	defer n.done(limit)
	r.quick = true
	var err error
	if r.Wanted {
		err = s.write(ctx, n.client, r.Alone())
	} else {
		err = r.RunAlone(ctx, n.client, s.Names)
	}
	n.heard(err, r.Attempts.Last)
	s.servers.slots.heard(err)
	return true
}

// start sends reqs once. One request joins those of other callers. Several, which are renewals, are a
// batch of their own that waits for nobody: in a busy process they would otherwise come too late.
func (s *Sender) start(reqs []*Request) *pending {
	p := newPending(reqs)
	rest := reqs
	if n := s.batchServer(reqs); n != nil {
		var sharing []*Request
		sharing, rest = split(reqs)
		if len(sharing) == 1 {
			n.with(sharing[0]).Add(sharing[0])
		} else {
			s.begin(sharing, s.sendGroup)
		}
	}
	s.begin(rest, s.sendEach)
	return p
}

// begin calls send with reqs, if there are any, on a goroutine.
func (s *Sender) begin(reqs []*Request, send func([]*Request)) {
	if len(reqs) == 0 {
		return
	}
	s.Go(func() {
		send(reqs)
		for _, r := range reqs {
			r.finished()
		}
	})
}

// batchServer returns the server whose requests share round trips: the one that has all keys, or,
// for a single request, a master that answers; otherwise nil.
func (s *Sender) batchServer(reqs []*Request) *server {
	if s.servers.cluster == nil {
		return s.servers.only
	}
	if len(reqs) == 1 && !reqs[0].slow {
		return s.servers.quick(reqs[0].Slot(s.Names))
	}
	return nil
}

// split divides reqs into those that may leave in a batch and the rest.
func split(reqs []*Request) (sharing, rest []*Request) {
	if !slices.ContainsFunc(reqs, func(r *Request) bool { return !r.shares() }) {
		return reqs, nil // the usual case
	}
	for _, r := range reqs {
		if r.shares() {
			sharing = append(sharing, r)
		} else {
			rest = append(rest, r)
		}
	}
	return sharing, rest
}

// sendGroup sends a batch to the only server. Afterwards each request has a reply or an error
// of its own.
func (s *Sender) sendGroup(batch []*Request) {
	// The context is nobody's: the callers are many, and each may leave by itself. The client's
	// timeouts bound the round trip.
	ctx := context.Background()
	var err error
	switch {
	case len(batch) > 1:
		err = s.runBatch(ctx, batch)
	case batch[0].Wanted:
		err = s.write(ctx, s.Client, batch)
	default:
		err = batch[0].RunAlone(ctx, s.Client, s.Names)
	}
	s.servers.heard("", err, batch[0].Attempts.Last)
}

// runBatch runs a batch in one script.
func (s *Sender) runBatch(ctx context.Context, batch []*Request) error {
	calls := make([]*script.Call, len(batch))
	for i, r := range batch {
		calls[i] = &r.Call
	}
	return script.RunBatch(ctx, s.Client, s.Names, calls)
}

// sendQuickly sends a batch to a master in one write, with a short timeout. The requests that
// get no answer go the ordinary way.
func (s *Sender) sendQuickly(n *server, batch []*Request) {
	limit, ctx := n.limit(context.Background())
	defer n.done(limit)
	err := s.write(ctx, n.client, batch)
	for _, r := range batch {
		r.quick = true
		s.servers.slots.heard(r.Err)
	}
	n.heard(err, batch[0].Attempts.Last)
}

// write sends a batch through c in one write. It returns the error of the round trip, or of the
// first request that has one.
//
// A server writes to its clients when it has run the commands that it has read, and begins with
// the client that it has had something for last. For a release that passes a lock on, that is
// the releaser, which has its answer after the waiter has its message. So the waiter would wait until
// the answer is written, and often until the releaser has read it on the waiter's processor. A PING
// in front turns the order round: the releaser is then the client that the server had something for
// first.
func (s *Sender) write(ctx context.Context, c redis.Cmdable, batch []*Request) error {
	pipe := c.Pipeline()
	if batch[0].Wanted {
		pipe.Ping(ctx)
	}
	sent := s.queueAll(ctx, pipe, batch)
	_, err := pipe.Exec(ctx)
	for _, one := range sent {
		_ = one.Finish(err) // the request has the error, too
	}
	return err
}

// sendEach sends each request for itself, in one round trip. If any of them waits for
// replicas, one WAIT goes behind them: it covers all that was written on the same connection.
func (s *Sender) sendEach(reqs []*Request) {
	ctx := context.Background()
	pipe := s.Client.Pipeline()
	sent := s.queueAll(ctx, pipe, reqs)
	replicas := 0
	for _, r := range reqs {
		replicas = max(replicas, r.Replicas)
	}
	var acks *redis.Cmd
	if replicas > 0 {
		acks = pipe.Do(ctx, "wait", replicas, s.ReplicaWait.Milliseconds())
	}
	_, err := pipe.Exec(ctx)
	for i, r := range reqs {
		_ = sent[i].Finish(err) // r.Err says it, too
		if r.Replicas > 0 && r.Err == nil {
			r.Acks, r.Err = acks.Int64()
		}
		s.servers.heard(r.Slot(s.Names), r.Err, r.Attempts.Last)
	}
}

// queueAll puts reqs into pipe, which sends them when it is executed.
func (s *Sender) queueAll(ctx context.Context, pipe redis.Pipeliner, reqs []*Request) []script.Sent {
	sent := make([]script.Sent, len(reqs))
	for i, r := range reqs {
		sent[i] = r.Run(ctx, pipe, s.Names)
	}
	return sent
}
