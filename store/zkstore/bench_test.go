package zkstore_test

import (
	"context"
	"slices"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/drivertest"
	"github.com/keyturn/keyturn/internal/storetest"
	"github.com/keyturn/keyturn/internal/zktest"
)

// durable starts a server that waits for its disk, as servers of locks should.
func durable(b *testing.B) *zktest.Server {
	return zktest.Start(b, "-Dzookeeper.forceSync=yes", "maxSessionTimeout=60000")
}

func BenchmarkStore(b *testing.B) {
	addrs := []string{durable(b).Addr()}
	drivertest.Bench(b, drivertest.Harness{New: func(testing.TB) driver.Store { return openAll(b, addrs, "/keyturn") }})
}

// recipe is the lock of ZooKeeper's documentation, by hand: an ephemeral sequential node, and a watch
// on the one in front. It has no token, no lease and no error for those who wait too long.
type recipe struct{ *zk.Conn }

func (r recipe) Lock(_ context.Context, key string) (func(context.Context) error, error) {
	dir := "/" + key
	if _, err := r.Create(dir, nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll)); err != nil && err != zk.ErrNodeExists {
		return nil, err
	}
	node, err := r.Create(dir+"/n-", nil, zk.FlagEphemeralSequential, zk.WorldACL(zk.PermAll))
	for err == nil {
		var names []string
		if names, _, err = r.Children(dir); err != nil {
			break
		}
		slices.Sort(names)
		at := slices.Index(names, node[len(dir)+1:])
		if at == 0 {
			return func(context.Context) error { return r.Delete(node, -1) }, nil
		}
		exists, _, gone, look := r.ExistsW(dir + "/" + names[at-1])
		if err = look; err == nil && exists {
			<-gone
		}
	}
	return nil, err
}

// peers are keyturn and the recipe, on one server.
func peers(b *testing.B) storetest.Peers {
	addr := durable(b).Addr()
	return storetest.Peers{
		"keyturn": func(b *testing.B) storetest.Locker {
			return storetest.Keyturn(b, openAll(b, []string{addr}, "/keyturn"))
		},
		"recipe": func(b *testing.B) storetest.Locker { return recipe{admin(b, addr)} },
	}
}

func BenchmarkPairs(b *testing.B)    { peers(b).BenchPairs(b) }
func BenchmarkHotKey(b *testing.B)   { peers(b).BenchHotKey(b) }
func BenchmarkHandOver(b *testing.B) { peers(b).BenchHandOver(b) }
