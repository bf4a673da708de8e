package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"math"
	"slices"
	"time"

	"github.com/keyturn/keyturn/internal/gather"
	"github.com/keyturn/keyturn/internal/waitloop"
)

const (
	// mostPerBatch is how many requests leave as one statement at most. Their rows stay locked for as long as
	// the statement takes.
	mostPerBatch = 64
	// mostAlone is how many callers send their own requests at a time. A batch of one or two takes longer
	// than as many statements of their own.
	mostAlone = 3
	// perTrip is longer than a COMMIT that waits for a disk. Two batches would wait for it twice.
	perTrip = 4 * time.Millisecond
)

// batcher sends plain requests that come while others are under way as one statement: one round trip,
// one COMMIT and one wait for the disk for all of them. Without such a statement each caller sends its own.
//
// The statement waits for no row that somebody has locked. What it leaves undone, each request does by
// a transaction of its own, which waits for that row alone.
type batcher struct {
	gather.Gather[*batched]
	s *Store
}

// batched is a request that may leave in a batch: an acquisition, or a release.
type batched struct {
	key     string
	row     []any  // of the statement for several
	late    func() // called when it may have been carried out for a caller that has gone; nil: nothing
	release bool

	ctx    context.Context // of its caller
	finish func()          // gives the caller the answer
	sent   bool

	// The answer.
	done            bool // otherwise a transaction has to decide
	unsure          bool // it may have been carried out nevertheless
	token, reserved uint64
}

func newBatcher(s *Store) *batcher {
	g := &batcher{s: s}
	g.Send, g.Go = g.send, s.calls.Go
	g.Most, g.Alone, g.Trips, g.PerTrip = mostPerBatch, mostAlone, 1, perTrip
	if s.q.batch == "" {
		g.Alone = math.MaxInt32
	}
	return g
}

// ask has r carried out in a batch. It reports false if ctx ends first. r may be carried out
// nevertheless, and its late is called after that.
func (g *batcher) ask(ctx context.Context, r *batched) bool {
	start := func(finish func()) {
		r.ctx, r.finish = ctx, finish
		g.Add(r)
	}
	late := func() {
		if r.sent && r.late != nil {
			r.late()
		}
	}
	_, answered := waitloop.Await(ctx, start, func() error { return nil }, late)
	return answered
}

// send is the gather's Send.
func (g *batcher) send(batch []*batched) {
	if g.s.workers.enter(g.s.hard) {
		g.carryOut(one(batch))
		g.s.workers.leave()
	}
	for _, r := range batch {
		r.finish()
	}
}

// one returns one request for each key, in the order of the keys, of those that have a caller. The order
// keeps two statements that insert the same keys from a deadlock.
func one(batch []*batched) []*batched {
	reqs := make([]*batched, 0, len(batch))
	for _, r := range batch {
		if r.ctx.Err() == nil {
			reqs = append(reqs, r)
		}
	}
	slices.SortStableFunc(reqs, func(a, b *batched) int { return cmp.Compare(a.key, b.key) })
	return slices.CompactFunc(reqs, func(a, b *batched) bool { return a.key == b.key })
}

// carryOut carries out reqs, as far as they can be carried out at once.
func (g *batcher) carryOut(reqs []*batched) {
	if len(reqs) == 0 {
		return
	}
	for _, r := range reqs {
		r.sent = true
	}
	ctx, cancel := context.WithTimeout(g.s.hard, opTimeout)
	defer cancel()
	err := g.s.checked.at(ctx)
	if err == nil {
		err = g.s.queryOnce(ctx, true, g.s.q.batch, arrays(reqs), func(rows *sql.Rows) error { return read(rows, reqs) })
	}
	if err == nil {
		return
	}
	for _, r := range reqs { // rows may arrive although their commit failed
		r.done, r.unsure = false, judge(err) == broken
	}
}

// read reads the answer to one of reqs.
func read(rows *sql.Rows, reqs []*batched) error {
	var key []byte
	var token, reserved uint64
	if err := rows.Scan(&key, &token, &reserved); err != nil {
		return err
	}
	i, ok := slices.BinarySearchFunc(reqs, string(key), func(r *batched, key string) int { return cmp.Compare(r.key, key) })
	if ok {
		reqs[i].done, reqs[i].token, reqs[i].reserved = true, token, reserved
	}
	return nil
}
