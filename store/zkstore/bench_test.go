package zkstore_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/drivertest"
	"github.com/keyturn/keyturn/internal/zktest"
	"github.com/keyturn/keyturn/store/zkstore"
)

// durable starts a server that waits for its disk, as servers of locks should.
func durable(b *testing.B) *zktest.Server {
	return zktest.Start(b, "-Dzookeeper.forceSync=yes", "maxSessionTimeout=60000")
}

func openLong(b *testing.B, addr string) *zkstore.Store {
	return openAll(b, []string{addr}, "/keyturn")
}

func BenchmarkStore(b *testing.B) {
	server := durable(b)
	drivertest.Bench(b, drivertest.Harness{New: func(testing.TB) driver.Store { return openLong(b, server.Addr()) }})
}

// recipe is the lock of ZooKeeper's documentation, by hand: an ephemeral sequential node, and a watch
// on the one in front. It has no token, no lease and no error for those who wait too long.
type recipe struct{ *zk.Conn }

func (r recipe) lock(b *testing.B, dir string) (node string) {
	node, err := r.Create(dir+"/n-", nil, zk.FlagEphemeralSequential, zk.WorldACL(zk.PermAll))
	for err == nil {
		var names []string
		if names, _, err = r.Children(dir); err != nil {
			break
		}
		slices.Sort(names)
		at := slices.Index(names, node[len(dir)+1:])
		if at == 0 {
			return node
		}
		exists, _, gone, look := r.ExistsW(dir + "/" + names[at-1])
		if err = look; err == nil && exists {
			<-gone
		}
	}
	b.Error(err)
	return node
}

func (r recipe) unlock(b *testing.B, node string) {
	if err := r.Delete(node, -1); err != nil {
		b.Error(err)
	}
}

func (r recipe) dir(b *testing.B, name string) string {
	if _, err := r.Create(name, nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll)); err != nil && err != zk.ErrNodeExists {
		b.Fatal(err)
	}
	return name
}

// together divides b.N among callers.
func together(b *testing.B, callers int, act func(caller int)) {
	var all sync.WaitGroup
	var left atomic.Int64
	left.Store(int64(b.N))
	b.ResetTimer()
	for c := range callers {
		all.Go(func() {
			for left.Add(-1) >= 0 && !b.Failed() {
				act(c)
			}
		})
	}
	all.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pairs/s")
}

// BenchmarkPairs acquires and releases keys that nobody else wants, over one session.
func BenchmarkPairs(b *testing.B) {
	server := durable(b)
	s, r := openLong(b, server.Addr()), recipe{admin(b, server.Addr())}
	for _, callers := range []int{1, 2, 4, 8, 16, 32, 64, 256} {
		b.Run(fmt.Sprintf("keyturn/%d", callers), func(b *testing.B) {
			together(b, callers, func(c int) {
				g, err := s.Acquire(context.Background(), request(fmt.Sprint("key", c), time.Minute))
				if err == nil {
					err = s.Release(context.Background(), g)
				}
				if err != nil {
					b.Error(err)
				}
			})
		})
		b.Run(fmt.Sprintf("recipe/%d", callers), func(b *testing.B) {
			for c := range callers {
				r.dir(b, fmt.Sprint("/recipe", c))
			}
			together(b, callers, func(c int) { r.unlock(b, r.lock(b, fmt.Sprint("/recipe", c))) })
		})
	}
}

// BenchmarkHotKey has 64 callers of one process that want the same key.
func BenchmarkHotKey(b *testing.B) {
	server := durable(b)
	b.Run("keyturn", func(b *testing.B) {
		eng, err := core.New(openLong(b, server.Addr()))
		if err != nil {
			b.Fatal(err)
		}
		defer eng.Close(context.Background())
		together(b, 64, func(int) {
			if err := eng.Do(context.Background(), "hot", func(context.Context) error { return nil }); err != nil {
				b.Error(err)
			}
		})
	})
	b.Run("recipe", func(b *testing.B) {
		r := recipe{admin(b, server.Addr())}
		dir := r.dir(b, "/hot")
		together(b, 64, func(int) { r.unlock(b, r.lock(b, dir)) })
	})
}

// BenchmarkHandOver measures from the call of the release in one process to the grant in another, which
// waits.
func BenchmarkHandOver(b *testing.B) {
	server := durable(b)
	b.Run("keyturn", func(b *testing.B) {
		stores := []*zkstore.Store{openLong(b, server.Addr()), openLong(b, server.Addr())}
		g := mustAcquire(b, stores[0], request("k", time.Minute))
		for i := range b.N {
			b.StopTimer()
			w := enqueue(b, stores[(i+1)%2], request("k", time.Minute))
			b.StartTimer()
			mustRelease(b, stores[i%2], g)
			g = w.granted(b, time.Minute)
		}
		b.StopTimer()
		mustRelease(b, stores[b.N%2], g)
	})
	b.Run("recipe", func(b *testing.B) {
		sessions := []recipe{{admin(b, server.Addr())}, {admin(b, server.Addr())}}
		dir := sessions[0].dir(b, "/handover")
		node := sessions[0].lock(b, dir)
		for i := range b.N {
			b.StopTimer()
			granted := make(chan string)
			go func() { granted <- sessions[(i+1)%2].lock(b, dir) }()
			for names := []string{}; len(names) < 2; time.Sleep(time.Millisecond) {
				names, _, _ = sessions[0].Children(dir)
			}
			time.Sleep(2 * time.Millisecond) // it has its watch
			b.StartTimer()
			sessions[i%2].unlock(b, node)
			node = <-granted
		}
	})
}
