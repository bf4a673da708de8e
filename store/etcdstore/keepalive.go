package etcdstore

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// keepAlives keeps leases alive over one stream. The keep-alives of etcd's client are of no use here: they
// go by a schedule of their own and do not tell when they were sent, or they open a stream for each
// lease.
type keepAlives struct {
	s    *Store
	turn chan struct{} // full while somebody opens a stream, which may take as long as to connect
	on   *stream       // whoever has the turn uses it; nil: none was opened yet
}

// stream is a stream of keep-alives. etcd answers in the order of the questions.
type stream struct {
	conn   pb.Lease_LeaseKeepAliveClient
	cancel context.CancelFunc
	turn   chan struct{} // full while somebody sends
	done   chan struct{} // closed when the stream has ended

	mu      sync.Mutex
	pending map[int64][]chan<- keptAlive // by lease, in the order of the questions
	heard   time.Time                    // the last answer, or the first question after all were answered
	dropped bool                         // it was given up
	err     error                        // why it ended
}

// keptAlive is an answer of etcd about a lease.
type keptAlive struct {
	alive bool
	// term is the term of raft in which the question reached etcd. A leader that was replaced and
	// has not noticed still answers keep-alives, but answers no reads. So alive counts only if a
	// read after it was answered in the same term.
	term uint64
}

func newKeepAlives(s *Store) *keepAlives { return &keepAlives{s: s, turn: make(chan struct{}, 1)} }

// extend asks etcd to keep leases for another TTL each. What it returns has an entry for each lease
// that was answered about before ctx ended or the stream broke; otherwise err says why it has not
// all of them.
func (b *keepAlives) extend(ctx context.Context, ids []clientv3.LeaseID) (answers map[clientv3.LeaseID]keptAlive, err error) {
	answers = make(map[clientv3.LeaseID]keptAlive, len(ids))
	for broken := 0; broken < 2; {
		ids = slices.DeleteFunc(ids, func(id clientv3.LeaseID) bool { _, ok := answers[id]; return ok })
		if err = b.try(ctx, ids, answers); err == nil || ctx.Err() != nil {
			break
		}
		if !errors.Is(err, errSilent) { // otherwise another caller has ended the stream that they share
			broken++
		}
	}
	return answers, err
}

// silent is after how long without an answer a stream is given up.
const silent = time.Second

// try asks on one stream.
func (b *keepAlives) try(ctx context.Context, ids []clientv3.LeaseID, answers map[clientv3.LeaseID]keptAlive) error {
	st, err := b.open(ctx)
	if err != nil {
		return err
	}
	waits := make([]chan keptAlive, len(ids))
	for i, id := range ids {
		waits[i] = make(chan keptAlive, 1)
		if err := st.ask(ctx, int64(id), waits[i]); err != nil {
			return err
		}
	}
	for i, id := range ids {
		select {
		case p := <-waits[i]:
			answers[id] = p
			continue
		case <-st.done:
		case <-ctx.Done():
			// A caller that has just asked, and goes, is no reason to end what others wait for.
			if st.isSilent() {
				st.drop()
			}
		}
		select {
		case p := <-waits[i]:
			answers[id] = p
		default:
			return st.reason(ctx)
		}
	}
	return nil
}

// open returns the stream, a new one if the last one has ended.
func (b *keepAlives) open(ctx context.Context) (*stream, error) {
	select {
	case b.turn <- struct{}{}:
		defer func() { <-b.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if b.on != nil {
		select {
		case <-b.on.done:
		default:
			return b.on, nil
		}
	}
	// The stream outlives ctx, and to open it must not.
	life, cancel := context.WithCancel(clientv3.WithRequireLeader(b.s.life))
	opened := context.AfterFunc(ctx, cancel)
	conn, err := pb.NewLeaseClient(b.s.client.ActiveConnection()).LeaseKeepAlive(life)
	if !opened() || err != nil {
		cancel()
		return nil, cmp.Or(ctx.Err(), err)
	}
	b.on = &stream{conn: conn, cancel: cancel, turn: make(chan struct{}, 1), done: make(chan struct{}), pending: make(map[int64][]chan<- keptAlive)}
	b.s.calls.Go(b.on.receive)
	return b.on, nil
}

// drop ends the stream, so that the next question opens another one.
func (st *stream) drop() {
	st.mu.Lock()
	st.dropped = true
	st.mu.Unlock()
	st.cancel()
	<-st.done
}

// ask sends one question.
func (st *stream) ask(ctx context.Context, id int64, answer chan<- keptAlive) error {
	select {
	case st.turn <- struct{}{}:
		defer func() { <-st.turn }()
	case <-st.done:
		return st.reason(ctx)
	case <-ctx.Done():
		return ctx.Err()
	}
	st.mu.Lock()
	if len(st.pending) == 0 {
		st.heard = time.Now()
	}
	st.pending[id] = append(st.pending[id], answer)
	st.mu.Unlock()
	// It waits if the server reads nothing.
	defer context.AfterFunc(ctx, st.drop)()
	if err := st.conn.Send(&pb.LeaseKeepAliveRequest{ID: id}); err != nil {
		st.cancel()
		<-st.done // Send's own error only says that the stream has ended
		return st.reason(ctx)
	}
	return nil
}

// isSilent reports whether the stream has not answered for a while. It may never do so again.
func (st *stream) isSilent() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return len(st.pending) > 0 && time.Since(st.heard) > silent
}

// receive passes the answers on until the stream ends.
func (st *stream) receive() {
	defer close(st.done)
	defer st.cancel()
	for {
		r, err := st.conn.Recv()
		st.mu.Lock()
		if err != nil {
			st.err = err
			st.mu.Unlock()
			return
		}
		st.heard = time.Now()
		p := keptAlive{alive: r.TTL > 0}
		if r.Header != nil {
			p.term = r.Header.RaftTerm
		}
		if waits := st.pending[r.ID]; len(waits) > 0 {
			waits[0] <- p // it has room for one
			if len(waits) == 1 {
				delete(st.pending, r.ID)
			} else {
				st.pending[r.ID] = waits[1:]
			}
		}
		st.mu.Unlock()
	}
}

// errSilent is the end of a stream that was given up.
var errSilent = errors.New("etcd does not answer keep-alives")

func (st *stream) reason(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.dropped || st.err == nil {
		return errSilent
	}
	return st.err
}
