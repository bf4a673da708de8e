package etcdstore_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/etcdtest"
	"github.com/keyturn/keyturn/store/etcdstore/internal/clienttest"
)

// locker is a process that takes locks.
type locker interface {
	lock(ctx context.Context, key string) (unlock func(context.Context) error, err error)
}

// engine is keyturn.
type engine struct{ *core.Engine }

func (e engine) lock(ctx context.Context, key string) (func(context.Context) error, error) {
	l, err := e.Acquire(ctx, key)
	if err != nil {
		return nil, err
	}
	return l.Release, nil
}

// session is etcd's own package: a process has a session, and each lock is a mutex of it. Callers of
// one process need a mutex of sync beside it: a session holds a key once.
type session struct {
	*concurrency.Session
	keys *sync.Map // key -> chan struct{}
}

func (s session) lock(ctx context.Context, key string) (func(context.Context) error, error) {
	turn, _ := s.keys.LoadOrStore(key, make(chan struct{}, 1))
	turn.(chan struct{}) <- struct{}{}
	m := concurrency.NewMutex(s.Session, "mutex/"+key)
	if err := m.Lock(ctx); err != nil {
		<-turn.(chan struct{})
		return nil, err
	}
	return func(ctx context.Context) error {
		defer func() { <-turn.(chan struct{}) }()
		return m.Unlock(ctx)
	}, nil
}

var peers = map[string]func(testing.TB, *clientv3.Client) locker{
	"keyturn": func(t testing.TB, c *clientv3.Client) locker {
		eng, err := core.New(open(t, c), core.WithTTL(30*time.Second), core.WithMaxWait(core.Forever))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = eng.Close(context.Background()) })
		return engine{eng}
	},
	"concurrency": func(t testing.TB, c *clientv3.Client) locker {
		s, err := concurrency.NewSession(c, concurrency.WithTTL(30))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return session{s, new(sync.Map)}
	},
}

// pairs takes and releases b.N times, by so many goroutines.
func pairs(b *testing.B, goroutines int, next func(goroutine int) (locker, string)) {
	var left atomic.Int64
	left.Store(int64(b.N))
	var all sync.WaitGroup
	b.ResetTimer()
	for i := range goroutines {
		all.Go(func() {
			l, key := next(i)
			for left.Add(-1) >= 0 {
				unlock, err := l.lock(b.Context(), key)
				if err == nil {
					err = unlock(b.Context())
				}
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pairs/s")
}

// BenchmarkPairs: each goroutine has a key of its own.
func BenchmarkPairs(b *testing.B) {
	for _, n := range []int{1, 2, 4, 8, 16, 32, 64, 256} {
		for name, peer := range peers {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				l := peer(b, clienttest.New(b, etcdtest.Start(b).Addr()))
				pairs(b, n, func(i int) (locker, string) { return l, fmt.Sprint("key", i) })
			})
		}
	}
}

// BenchmarkHotKey: all goroutines of one process, and of four, want the same key.
func BenchmarkHotKey(b *testing.B) {
	for _, processes := range []int{1, 4} {
		for name, peer := range peers {
			b.Run(fmt.Sprintf("%s/%d", name, processes), func(b *testing.B) {
				server := etcdtest.Start(b)
				var all []locker
				for range processes {
					all = append(all, peer(b, clienttest.New(b, server.Addr())))
				}
				pairs(b, 16, func(i int) (locker, string) { return all[i%processes], "key" })
			})
		}
	}
}

// BenchmarkHandOver: two processes, with one goroutine each, want the same key.
func BenchmarkHandOver(b *testing.B) {
	for name, peer := range peers {
		b.Run(name, func(b *testing.B) {
			server := etcdtest.Start(b)
			all := []locker{peer(b, clienttest.New(b, server.Addr())), peer(b, clienttest.New(b, server.Addr()))}
			pairs(b, 2, func(i int) (locker, string) { return all[i], "key" })
		})
	}
}

// BenchmarkHeld renews 1000 leases at a time.
func BenchmarkHeld(b *testing.B) {
	s := open(b, clienttest.New(b, etcdtest.Start(b).Addr()))
	var grants []driver.Grant
	for i := range 1000 {
		grants = append(grants, hold(b, s, request(fmt.Sprint("o", i), fmt.Sprint("key", i), time.Minute)))
	}
	b.ResetTimer()
	for range b.N {
		for _, err := range s.Renew(b.Context(), grants) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}
