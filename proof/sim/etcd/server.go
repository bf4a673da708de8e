package etcd

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc"
)

// Server is an etcd. Make one with [New].
type Server struct {
	rpc   *grpc.Server
	conns conns

	mu        sync.Mutex
	term      uint64
	revision  int64
	keys      map[string]*mvccpb.KeyValue
	leases    map[int64]*lease
	lastLease int64
	events    []*mvccpb.Event // in the order of their revisions
	compacted int64           // events up to this revision are gone
	watchers  []*watcher      // in the order in which they came, so that each history repeats itself
	// late is how much later than its end a lease is noticed.
	late func() time.Duration
}

// New makes an empty server. late says how much later than its end each lease is noticed.
func New(late func() time.Duration) *Server {
	s := &Server{rpc: grpc.NewServer(), conns: conns{make(chan net.Conn), make(chan struct{})}, term: 2, late: late}
	s.clear()
	pb.RegisterKVServer(s.rpc, &kv{Server: s})
	pb.RegisterLeaseServer(s.rpc, &leasing{Server: s})
	pb.RegisterWatchServer(s.rpc, &watching{Server: s})
	go func() { _ = s.rpc.Serve(s.conns) }()
	return s
}

func (s *Server) clear() {
	s.revision, s.compacted, s.events = 1, 0, nil
	s.keys, s.leases, s.watchers = map[string]*mvccpb.KeyValue{}, map[int64]*lease{}, nil
}

// Serve takes a connection.
func (s *Server) Serve(c net.Conn) { s.conns.new <- c }

// Stop ends all connections.
func (s *Server) Stop() {
	s.mu.Lock()
	for _, l := range s.leases {
		l.timer.Stop()
	}
	s.mu.Unlock()
	s.rpc.Stop()
}

// Restart has it be the leader of the next term, in which all leases begin anew.
func (s *Server) Restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.term++
	for _, l := range s.leases {
		s.renew(l)
	}
}

// Erase has it lose everything.
func (s *Server) Erase() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.leases {
		l.timer.Stop()
	}
	s.clear()
}

// DropEvents drops the events so far: it compacts.
func (s *Server) DropEvents() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.compacted, s.events = s.revision, nil
}

// Keys returns the names of all keys.
func (s *Server) Keys() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sorted("", "\x00")
}

// header needs mu.
func (s *Server) header() *pb.ResponseHeader {
	return &pb.ResponseHeader{ClusterId: 1, MemberId: 1, Revision: s.revision, RaftTerm: s.term}
}

// conns is a listener that gets its connections from Serve.
type conns struct {
	new  chan net.Conn
	over chan struct{}
}

// Accept implements net.Listener.
func (l conns) Accept() (net.Conn, error) {
	select {
	case c := <-l.new:
		return c, nil
	case <-l.over:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l conns) Close() error {
	close(l.over)
	return nil
}

// Addr implements net.Listener.
func (conns) Addr() net.Addr { return &net.TCPAddr{} }

var errNotSimulated = errors.New("this request is not simulated")

// kv serves keys.
type kv struct {
	pb.UnimplementedKVServer
	*Server
}

// Range implements pb.KVServer.
func (s *kv) Range(_ context.Context, r *pb.RangeRequest) (*pb.RangeResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	answer := s.get(r)
	answer.Header = s.header()
	return answer, nil
}

// Put implements pb.KVServer.
func (s *kv) Put(ctx context.Context, r *pb.PutRequest) (*pb.PutResponse, error) {
	answer, err := s.Txn(ctx, &pb.TxnRequest{Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestPut{RequestPut: r}}}})
	if err != nil {
		return nil, err
	}
	return &pb.PutResponse{Header: answer.Header}, nil
}
