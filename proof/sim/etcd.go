package sim

import (
	"context"
	"net"
	"slices"
	"time"
	_ "unsafe" // for go:linkname

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/proof/sim/etcd"
	"github.com/keyturn/keyturn/store/etcdstore"
)

// never is a channel of the client library that is never closed. Contexts that wait for it as well would
// keep the bubble's time from moving, because it was made outside. A nil channel is never closed either.
//
//go:linkname never go.etcd.io/etcd/client/v3.valCtxCh
var never chan struct{}

func init() { never = nil }

// etcdServer is an etcd on a host.
type etcdServer struct {
	*host
	simple
	*etcd.Server
}

func newEtcd(c chance) *etcdServer {
	var ends uint64
	s := &etcdServer{host: &host{}, Server: etcd.New(func() time.Duration {
		ends++
		return c.of(ends).between(0, time.Second)
	})}
	s.program = s
	return s
}

// serve implements program.
func (s *etcdServer) serve(c net.Conn) { s.Serve(c) }

// restart implements program. Its connections are gone, and its data is there.
func (s *etcdServer) restart() { s.Restart() }

// left returns the keys that don't go by themselves.
func (s *etcdServer) left() []string {
	time.Sleep(48 * time.Hour) // a lock that is not used any more stays for half a day at least
	return s.Keys()
}

func (f *fleet) bootEtcd() error {
	f.etcd = newEtcd(f.chance.of(10))
	f.has(f.etcd.host, f.etcd.Erase, f.etcd.left, f.etcd.Stop)
	return nil
}

// openEtcd makes the etcdstore of a process.
func (f *fleet) openEtcd(p *process) (driver.Store, func(), error) {
	w := f.way(p, 0)
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{"192.0.2.1:2379"}, Logger: zap.NewNop(), DialTimeout: time.Second, DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: time.Second,
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return w.dial(ctx) })},
	})
	if err != nil {
		return nil, nil, err
	}
	store, err := etcdstore.New(context.Background(), client, etcdstore.WithWaiterLease(2*time.Second), etcdstore.WithLogger(silent))
	return store, func() { _ = client.Close() }, err
}

// kindsOfEtcd are those of a fleet with etcdstore.
var kindsOfEtcd = slices.Concat(kindsOfProcesses, []kind{
	empty,
	{"compact", servers, 0, 0, false, func(f *fleet, _ *Fault) { f.etcd.DropEvents() }},
}, kindsOfHost, without(kindsOfNetwork, "duplicate", "late"))
