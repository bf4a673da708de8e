package etcdstore_test

import (
	"context"
	"sync"
	"testing"

	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/drivertest"
	"github.com/keyturn/keyturn/internal/etcdtest"
	"github.com/keyturn/keyturn/internal/storetest"
	"github.com/keyturn/keyturn/store/etcdstore/internal/clienttest"
)

func BenchmarkStore(b *testing.B) {
	server := etcdtest.Start(b)
	drivertest.Bench(b, drivertest.Harness{New: func(t testing.TB) driver.Store { return on(t, server) }})
}

// session is etcd's own package: a process has a session, and each lock is a mutex of it. Callers of
// one process need a mutex of sync beside it: a session holds a key once.
type session struct {
	*concurrency.Session
	keys *sync.Map // key -> chan struct{}
}

func (s session) Lock(ctx context.Context, key string) (func(context.Context) error, error) {
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

// peers are keyturn and etcd's package, on one server.
func peers(b *testing.B) storetest.Peers {
	server := etcdtest.Start(b)
	return storetest.Peers{
		"keyturn": func(b *testing.B) storetest.Locker { return storetest.Keyturn(b, on(b, server)) },
		"concurrency": func(b *testing.B) storetest.Locker {
			s, err := concurrency.NewSession(clienttest.New(b, server.Addr()), concurrency.WithTTL(30))
			must(b, err)
			b.Cleanup(func() { _ = s.Close() })
			return session{s, new(sync.Map)}
		},
	}
}

func BenchmarkPairs(b *testing.B)    { peers(b).BenchPairs(b) }
func BenchmarkHotKey(b *testing.B)   { peers(b).BenchHotKey(b) }
func BenchmarkHandOver(b *testing.B) { peers(b).BenchHandOver(b) }
