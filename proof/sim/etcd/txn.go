package etcd

import (
	"bytes"
	"cmp"
	"context"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// sorted returns the names from key up to end, as in a RangeRequest. It needs mu.
func (s *Server) sorted(key, end string) (names []string) {
	if end == "" {
		if s.keys[key] != nil {
			names = []string{key}
		}
		return names
	}
	for name := range s.keys {
		if inside(name, key, end) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// inside reports whether a name is one of those from key up to end.
func inside(name, key, end string) bool { return name >= key && (end == "\x00" || name < end) }

// get reads the present revision. It needs mu.
func (s *Server) get(r *pb.RangeRequest) *pb.RangeResponse {
	names := s.sorted(string(r.Key), string(r.RangeEnd))
	answer := &pb.RangeResponse{Count: int64(len(names))}
	if r.Limit > 0 && int64(len(names)) > r.Limit {
		names, answer.More = names[:r.Limit], true
	}
	for _, name := range names {
		found := *s.keys[name]
		if r.KeysOnly {
			found.Value = nil
		}
		answer.Kvs = append(answer.Kvs, &found)
	}
	return answer
}

// Txn implements pb.KVServer.
func (s *kv) Txn(_ context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	answer := &pb.TxnResponse{Succeeded: !slices.ContainsFunc(r.Compare, func(c *pb.Compare) bool { return !s.holds(c) })}
	ops := r.Failure
	if answer.Succeeded {
		ops = r.Success
	}
	if err := s.refuses(ops); err != nil {
		return nil, err
	}
	at := s.revision + 1
	for _, op := range ops {
		answer.Responses = append(answer.Responses, s.apply(op, at))
	}
	answer.Header = s.header()
	s.tellAll()
	return answer, nil
}

// holds reports whether each key that a comparison is about is as it says. Needs mu.
func (s *Server) holds(c *pb.Compare) bool {
	names := s.sorted(string(c.Key), string(c.RangeEnd))
	if len(names) == 0 {
		return c.Target != pb.Compare_VALUE && compare(c, &mvccpb.KeyValue{})
	}
	return !slices.ContainsFunc(names, func(name string) bool { return !compare(c, s.keys[name]) })
}

func compare(c *pb.Compare, is *mvccpb.KeyValue) bool {
	var order int
	switch c.Target {
	case pb.Compare_MOD:
		order = cmp.Compare(is.ModRevision, c.GetModRevision())
	case pb.Compare_CREATE:
		order = cmp.Compare(is.CreateRevision, c.GetCreateRevision())
	case pb.Compare_VALUE:
		order = bytes.Compare(is.Value, c.GetValue())
	default:
		panic(errNotSimulated)
	}
	switch c.Result {
	case pb.Compare_EQUAL:
		return order == 0
	case pb.Compare_LESS:
		return order < 0
	case pb.Compare_GREATER:
		return order > 0
	}
	return order != 0
}

// refuses returns why a transaction changes nothing. Needs mu.
func (s *Server) refuses(ops []*pb.RequestOp) error {
	put := map[string]bool{}
	for _, op := range ops {
		p := op.GetRequestPut()
		if p == nil {
			continue
		}
		switch key := string(p.Key); {
		case put[key]:
			return rpctypes.ErrGRPCDuplicateKey
		case p.IgnoreLease && s.keys[key] == nil:
			return rpctypes.ErrGRPCKeyNotFound
		case p.Lease != 0 && s.leases[p.Lease] == nil:
			return rpctypes.ErrGRPCLeaseNotFound
		default:
			put[key] = true
		}
	}
	return nil
}

// apply carries out an operation of a transaction that has that revision. Needs mu.
func (s *Server) apply(op *pb.RequestOp, at int64) *pb.ResponseOp {
	switch {
	case op.GetRequestRange() != nil:
		return &pb.ResponseOp{Response: &pb.ResponseOp_ResponseRange{ResponseRange: s.get(op.GetRequestRange())}}
	case op.GetRequestPut() != nil:
		s.put(op.GetRequestPut(), at)
		return &pb.ResponseOp{Response: &pb.ResponseOp_ResponsePut{ResponsePut: &pb.PutResponse{}}}
	case op.GetRequestDeleteRange() != nil:
		d := op.GetRequestDeleteRange()
		names := s.sorted(string(d.Key), string(d.RangeEnd))
		for _, name := range names {
			s.remove(name, at)
		}
		return &pb.ResponseOp{Response: &pb.ResponseOp_ResponseDeleteRange{ResponseDeleteRange: &pb.DeleteRangeResponse{Deleted: int64(len(names))}}}
	}
	panic(errNotSimulated)
}

// put and remove need mu.
func (s *Server) put(p *pb.PutRequest, at int64) {
	name := string(p.Key)
	is := &mvccpb.KeyValue{Key: p.Key, Value: p.Value, CreateRevision: at, ModRevision: at, Version: 1, Lease: p.Lease}
	if was := s.keys[name]; was != nil {
		is.CreateRevision, is.Version = was.CreateRevision, was.Version+1
		if p.IgnoreLease {
			is.Lease = was.Lease
		}
		s.detach(was)
	}
	if l := s.leases[is.Lease]; l != nil {
		l.keys[name] = true
	}
	s.keys[name] = is
	s.happened(&mvccpb.Event{Type: mvccpb.PUT, Kv: is}, at)
}

func (s *Server) remove(name string, at int64) {
	s.detach(s.keys[name])
	delete(s.keys, name)
	s.happened(&mvccpb.Event{Type: mvccpb.DELETE, Kv: &mvccpb.KeyValue{Key: []byte(name), ModRevision: at}}, at)
}

// detach takes a key from its lease.
func (s *Server) detach(was *mvccpb.KeyValue) {
	if l := s.leases[was.Lease]; l != nil {
		delete(l.keys, string(was.Key))
	}
}

func (s *Server) happened(e *mvccpb.Event, at int64) {
	s.revision = at
	s.events = append(s.events, e)
}
