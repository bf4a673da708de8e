package sim

import (
	"context"
	"errors"
	"net"
	"path"
	"slices"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/proof/sim/zookeeper"
	"github.com/keyturn/keyturn/store/zkstore"
)

// zkServer is a ZooKeeper on a host.
type zkServer struct {
	*host
	simple
	*zookeeper.Server
}

// serve implements program.
func (s *zkServer) serve(c net.Conn) { s.Serve(c) }

// restart implements program. Its connections are gone, and its data and sessions are there.
func (s *zkServer) restart() { s.Restart() }

func (f *fleet) bootZooKeeper() error {
	f.zk = &zkServer{host: &host{}, Server: zookeeper.New()}
	f.zk.program = f.zk
	f.has(f.zk.host, f.zk.Erase, f.zkLeft, f.zk.Stop)
	return nil
}

// zkLeft returns the nodes that a sweep leaves when all that goes by itself has gone.
func (f *fleet) zkLeft() []string {
	time.Sleep(75 * time.Minute) // the reason of a forced release stays for an hour
	store, hangUp, err := f.openZooKeeper(&process{nr: len(f.all) + 1})
	if err != nil {
		return []string{err.Error()}
	}
	defer hangUp()
	for range 2 { // the first one uses locks whose holders have died, and leaves them for the second
		time.Sleep(2 * time.Minute)
		err = errors.Join(err, store.(*zkstore.Store).Sweep(context.Background(), 0))
	}
	if err = errors.Join(err, store.Close()); err != nil {
		return []string{err.Error()}
	}
	return slices.DeleteFunc(f.zk.Paths(), func(at string) bool {
		const lock, inbox = zkstore.DefaultRoot + "/b/*/*", zkstore.DefaultRoot + "/i/*"
		return !matches(lock, at) && !matches(lock+"/*", at) && !matches(inbox, at)
	})
}

func matches(pattern, at string) bool {
	yes, _ := path.Match(pattern, at)
	return yes
}

// openZooKeeper makes the zkstore of a process.
func (f *fleet) openZooKeeper(p *process) (driver.Store, func(), error) {
	w := f.way(p, 0)
	store, err := zkstore.New(context.Background(), []string{"192.0.2.1:2181"}, zkstore.WithSession(waiterLease), zkstore.WithLogger(silent),
		zkstore.WithDialer(func(ctx context.Context, _, _ string) (net.Conn, error) { return w.dial(ctx) }))
	return store, func() {}, err
}

// kindsOfZooKeeper are those of a fleet with zkstore.
var kindsOfZooKeeper = slices.Concat(kindsOfProcesses, []kind{
	empty,
	// Only forward: a process goes by the clock that it has seen, and may give tokens of a time that the server
	// has left. If that loses its data, too, tokens may fall.
	{"clock", servers, 0, 0, true, func(f *fleet, x *Fault) { f.zk.SetClock(x.of(1).between(0, 2*f.TTL)) }},
}, kindsOfHost, without(kindsOfNetwork, "duplicate", "late"))
