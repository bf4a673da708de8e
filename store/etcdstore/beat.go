package etcdstore

import (
	"context"
	"errors"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// beats keeps leases alive over one stream. The keep-alives of etcd's client are of no use here: they
// go by a schedule of their own and do not tell when they were sent, or they open a stream for each
// lease.
type beats struct {
	s  *Store
	mu sync.Mutex
	on *stream // nil: none is open
}

// stream is a stream of keep-alives. etcd answers in the order of the questions.
type stream struct {
	conn   pb.Lease_LeaseKeepAliveClient
	cancel context.CancelFunc
	turn   chan struct{} // full while somebody sends
	done   chan struct{} // closed when the stream has ended

	mu      sync.Mutex
	pending map[int64][]chan<- pulse // by lease, in the order of the questions
	err     error                    // why it ended
}

// pulse is an answer of etcd about a lease.
type pulse struct {
	alive bool
	// term is the term of raft in which the question reached etcd. A leader that was replaced and
	// has not noticed still answers keep-alives, but answers no reads. So alive counts only if a
	// read after it was answered in the same term.
	term uint64
}

func newBeats(s *Store) *beats { return &beats{s: s} }

// beat asks etcd to keep leases for another TTL each. What it returns has an entry for each lease
// that was answered about before ctx ended or the stream broke; otherwise err says why it has not
// all of them.
func (b *beats) beat(ctx context.Context, ids []clientv3.LeaseID) (answers map[clientv3.LeaseID]pulse, err error) {
	answers = make(map[clientv3.LeaseID]pulse, len(ids))
	st, err := b.open()
	if err != nil {
		return answers, err
	}
	// A stream that does not answer in time may never answer again.
	defer context.AfterFunc(ctx, func() { b.drop(st) })()
	waits := make([]chan pulse, len(ids))
	for i, id := range ids {
		waits[i] = make(chan pulse, 1)
		if err := st.ask(ctx, int64(id), waits[i]); err != nil {
			return answers, err
		}
	}
	for i, id := range ids {
		select {
		case p := <-waits[i]:
			answers[id] = p
		case <-st.done:
			select {
			case p := <-waits[i]:
				answers[id] = p
			default:
				return answers, st.reason(ctx)
			}
		}
	}
	return answers, nil
}

// open returns the stream, a new one if the last one has ended.
func (b *beats) open() (*stream, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.on != nil {
		select {
		case <-b.on.done:
		default:
			return b.on, nil
		}
	}
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(b.s.life))
	conn, err := pb.NewLeaseClient(b.s.client.ActiveConnection()).LeaseKeepAlive(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	st := &stream{conn: conn, cancel: cancel, turn: make(chan struct{}, 1), done: make(chan struct{}), pending: make(map[int64][]chan<- pulse)}
	b.on = st
	b.s.calls.Go(st.receive)
	return st, nil
}

// drop ends a stream, so that the next beat opens another one.
func (b *beats) drop(st *stream) {
	b.mu.Lock()
	if b.on == st {
		b.on = nil
	}
	b.mu.Unlock()
	st.cancel()
}

// ask sends one question.
func (st *stream) ask(ctx context.Context, id int64, answer chan<- pulse) error {
	select {
	case st.turn <- struct{}{}:
		defer func() { <-st.turn }()
	case <-st.done:
		return st.reason(ctx)
	}
	st.mu.Lock()
	st.pending[id] = append(st.pending[id], answer)
	st.mu.Unlock()
	if err := st.conn.Send(&pb.LeaseKeepAliveRequest{ID: id}); err != nil {
		st.cancel()
		<-st.done // Send's own error only says that the stream has ended
		return st.reason(ctx)
	}
	return nil
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
		p := pulse{alive: r.TTL > 0}
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
	if st.err == nil {
		return errSilent
	}
	return st.err
}

// one asks for another TTL of one lease.
func (b *beats) one(ctx context.Context, id clientv3.LeaseID) (pulse, error) {
	answers, err := b.beat(ctx, []clientv3.LeaseID{id})
	return answers[id], err
}
