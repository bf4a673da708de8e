package etcd

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// leastTTL is that of a server with an election timeout of a second.
const leastTTL = 2

type lease struct {
	id    int64
	ttl   int64 // in seconds
	until time.Time
	timer *time.Timer
	keys  map[string]bool
}

// renew begins the time of a lease anew. Needs mu.
func (s *Server) renew(l *lease) {
	l.until = time.Now().Add(time.Duration(l.ttl) * time.Second)
	if l.timer != nil {
		l.timer.Stop()
	}
	l.timer = time.AfterFunc(time.Until(l.until)+s.late(), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.leases[l.id] == l && !time.Now().Before(l.until) {
			s.revoke(l)
		}
	})
}

// revoke ends a lease with its keys. Needs mu.
func (s *Server) revoke(l *lease) {
	l.timer.Stop()
	delete(s.leases, l.id)
	at := s.revision + 1
	for _, name := range slices.Sorted(maps.Keys(l.keys)) {
		s.remove(name, at)
	}
	s.tellAll()
}

// leasing serves leases.
type leasing struct {
	pb.UnimplementedLeaseServer
	*Server
}

// LeaseGrant implements pb.LeaseServer.
func (s *leasing) LeaseGrant(_ context.Context, r *pb.LeaseGrantRequest) (*pb.LeaseGrantResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastLease++
	l := &lease{id: s.lastLease, ttl: max(r.TTL, leastTTL), keys: map[string]bool{}}
	s.leases[l.id] = l
	s.renew(l)
	return &pb.LeaseGrantResponse{Header: s.header(), ID: l.id, TTL: l.ttl}, nil
}

// LeaseRevoke implements pb.LeaseServer.
func (s *leasing) LeaseRevoke(_ context.Context, r *pb.LeaseRevokeRequest) (*pb.LeaseRevokeResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.leases[r.ID]
	if l == nil {
		return nil, rpctypes.ErrGRPCLeaseNotFound
	}
	s.revoke(l)
	return &pb.LeaseRevokeResponse{Header: s.header()}, nil
}

// LeaseTimeToLive implements pb.LeaseServer.
func (s *leasing) LeaseTimeToLive(_ context.Context, r *pb.LeaseTimeToLiveRequest) (*pb.LeaseTimeToLiveResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	answer := &pb.LeaseTimeToLiveResponse{Header: s.header(), ID: r.ID, TTL: -1}
	if l := s.leases[r.ID]; l != nil {
		answer.GrantedTTL, answer.TTL = l.ttl, int64(time.Until(l.until)/time.Second)
	}
	return answer, nil
}

// LeaseKeepAlive implements pb.LeaseServer.
func (s *leasing) LeaseKeepAlive(stream pb.Lease_LeaseKeepAliveServer) error {
	for {
		r, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := stream.Send(s.keepAlive(r.ID)); err != nil {
			return err
		}
	}
}

func (s *leasing) keepAlive(id int64) *pb.LeaseKeepAliveResponse {
	s.mu.Lock()
	defer s.mu.Unlock()
	answer := &pb.LeaseKeepAliveResponse{ID: id}
	switch l := s.leases[id]; {
	case l == nil:
	case !time.Now().Before(l.until): // its end is noticed now
		s.revoke(l)
	default:
		s.renew(l)
		answer.TTL = l.ttl
	}
	answer.Header = s.header()
	return answer
}
