package etcd

import (
	"maps"
	"slices"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// watching serves watches.
type watching struct {
	pb.UnimplementedWatchServer
	*Server
}

// watcher is one watch of a connection.
type watcher struct {
	*pb.WatchCreateRequest
	id   int64
	next int64 // the revision of the first event that it has not been told of
	to   *mailbox
}

// mailbox has what a stream has to send.
type mailbox struct {
	mu     sync.Mutex
	unsent []*pb.WatchResponse
	some   chan struct{}
}

func (b *mailbox) put(r *pb.WatchResponse) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unsent = append(b.unsent, r)
	select {
	case b.some <- struct{}{}:
	default:
	}
}

func (b *mailbox) take() []*pb.WatchResponse {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.unsent
	b.unsent = nil
	return all
}

// Watch implements pb.WatchServer.
func (s *watching) Watch(stream pb.Watch_WatchServer) error {
	box := &mailbox{some: make(chan struct{}, 1)}
	var sent sync.WaitGroup
	sent.Go(func() {
		for {
			select {
			case <-box.some:
			case <-stream.Context().Done():
				return
			}
			for _, r := range box.take() {
				if stream.Send(r) != nil {
					return
				}
			}
		}
	})
	defer sent.Wait()
	mine := map[int64]*watcher{}
	defer func() {
		for _, id := range slices.Sorted(maps.Keys(mine)) {
			s.end(mine[id])
		}
	}()
	for id := int64(0); ; id++ {
		r, err := stream.Recv()
		if err != nil {
			return err
		}
		switch {
		case r.GetCreateRequest() != nil:
			mine[id] = s.begin(r.GetCreateRequest(), id, box)
		case r.GetCancelRequest() != nil:
			gone := r.GetCancelRequest().WatchId
			s.end(mine[gone])
			delete(mine, gone)
			box.put(&pb.WatchResponse{Header: s.now(), WatchId: gone, Canceled: true})
		}
	}
}

func (s *Server) now() *pb.ResponseHeader {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.header()
}

// begin makes a watcher and tells it what it has missed.
func (s *Server) begin(r *pb.WatchCreateRequest, id int64, to *mailbox) *watcher {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := &watcher{WatchCreateRequest: r, id: id, next: r.StartRevision, to: to}
	if w.next == 0 {
		w.next = s.revision + 1
	}
	to.put(&pb.WatchResponse{Header: s.header(), WatchId: id, Created: true})
	if w.next <= s.compacted {
		to.put(&pb.WatchResponse{Header: s.header(), WatchId: id, Canceled: true, CompactRevision: s.compacted + 1})
		return w
	}
	s.watchers = append(s.watchers, w)
	s.tell(w)
	return w
}

func (s *Server) end(w *watcher) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watchers = slices.DeleteFunc(s.watchers, func(other *watcher) bool { return other == w })
}

// tellAll tells the watchers what has happened. Needs mu, as tell does.
func (s *Server) tellAll() {
	for _, w := range s.watchers {
		s.tell(w)
	}
}

func (s *Server) tell(w *watcher) {
	first, _ := slices.BinarySearchFunc(s.events, w.next, func(e *mvccpb.Event, next int64) int { return int(e.Kv.ModRevision - next) })
	if first == len(s.events) {
		return
	}
	w.next = s.revision + 1
	var some []*mvccpb.Event
	for _, e := range s.events[first:] {
		if w.sees(e) {
			some = append(some, e)
		}
	}
	if len(some) > 0 {
		w.to.put(&pb.WatchResponse{Header: s.header(), WatchId: w.id, Events: some})
	}
}

func (w *watcher) sees(e *mvccpb.Event) bool {
	kind := pb.WatchCreateRequest_NOPUT
	if e.Type == mvccpb.DELETE {
		kind = pb.WatchCreateRequest_NODELETE
	}
	name, end := string(e.Kv.Key), string(w.RangeEnd)
	sees := name == string(w.Key)
	if end != "" {
		sees = inside(name, string(w.Key), end)
	}
	return sees && !slices.Contains(w.Filters, kind)
}
