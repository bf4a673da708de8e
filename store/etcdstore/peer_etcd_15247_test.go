package etcdstore_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/etcdstore/internal/clienttest"
)

// member is a member of a cluster that forwards keep-alives to a leader which was replaced without
// noticing (etcd-io/etcd#15247), and reads to its successor. No real cluster can be brought into that
// state at will: the old leader's disk has to hang, but not the rest of it.
type member struct {
	pb.UnimplementedKVServer
	pb.UnimplementedLeaseServer
	kv       *mvccpb.KeyValue
	old      atomic.Bool // it still knows the old leader only
	answered atomic.Int64
}

const oldTerm, newTerm = 4, 5

func (m *member) LeaseGrant(_ context.Context, r *pb.LeaseGrantRequest) (*pb.LeaseGrantResponse, error) {
	return &pb.LeaseGrantResponse{Header: &pb.ResponseHeader{RaftTerm: newTerm}, ID: 1, TTL: r.TTL}, nil
}

func (m *member) LeaseKeepAlive(stream pb.Lease_LeaseKeepAliveServer) error {
	for {
		r, err := stream.Recv()
		if err != nil {
			return nil
		}
		term := uint64(newTerm)
		if m.old.Load() {
			term = oldTerm
		}
		m.answered.Add(1)
		if err := stream.Send(&pb.LeaseKeepAliveResponse{Header: &pb.ResponseHeader{RaftTerm: term}, ID: r.ID, TTL: 10}); err != nil {
			return err
		}
	}
}

func (m *member) Txn(_ context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
	answer := &pb.TxnResponse{Header: &pb.ResponseHeader{RaftTerm: newTerm, Revision: 9}, Succeeded: true}
	for range r.Success {
		found := &pb.RangeResponse{Header: &pb.ResponseHeader{}, Kvs: []*mvccpb.KeyValue{m.kv}, Count: 1}
		answer.Responses = append(answer.Responses, &pb.ResponseOp{Response: &pb.ResponseOp_ResponseRange{ResponseRange: found}})
	}
	return answer, nil
}

// TestKeptAliveByAnOldLeader: such a renewal is no renewal, and no loss either.
func TestKeptAliveByAnOldLeader(t *testing.T) {
	t.Parallel()
	value := `{"token":5,"ttl":10,"lease":10,"set":1,"since":1}`
	m := &member{kv: &mvccpb.KeyValue{Key: []byte(memberKey(t, "k", "o")), Value: []byte(value), CreateRevision: 8, ModRevision: 8, Lease: 7}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	server := grpc.NewServer()
	pb.RegisterKVServer(server, m)
	pb.RegisterLeaseServer(server, m)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	s := open(t, clienttest.New(t, l.Addr().String()))
	g := driver.Grant{Owner: "o", Claims: []driver.Claim{driver.Exclusive("k")}, TTL: 10 * time.Second, Token: 5}

	must(t, s.Renew(t.Context(), []driver.Grant{g})[0])
	m.old.Store(true)
	before := m.answered.Load()
	err = s.Renew(t.Context(), []driver.Grant{g})[0]
	check(t, errors.Is(err, driver.ErrUnavailable) && !errors.Is(err, driver.ErrLeaseLost), "a renewal by the old leader: %v", err)
	n := m.answered.Load() - before
	check(t, n == 2, "%d keep-alives were sent, want a second try", n)
}
