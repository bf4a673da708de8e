package storetest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/checktest"
)

// Locker is a process that takes locks.
type Locker interface {
	Lock(ctx context.Context, key string) (unlock func(context.Context) error, err error)
}

// Keyturn is the locker on a store.
func Keyturn(b *testing.B, s driver.Store) Locker {
	b.Helper()
	eng, err := core.New(s, core.WithTTL(30*time.Second), core.WithMaxWait(core.Forever))
	checktest.Must(b, err)
	b.Cleanup(func() { _ = eng.Close(context.Background()) })
	return engine{eng}
}

type engine struct{ *core.Engine }

func (e engine) Lock(ctx context.Context, key string) (func(context.Context) error, error) {
	l, err := e.Acquire(ctx, key)
	if err != nil {
		return nil, err
	}
	return l.Release, nil
}

// Peers make processes on the server of a benchmark, by the name of what they take locks with.
type Peers map[string]func(b *testing.B) Locker

// BenchPairs takes and releases keys that nobody else wants, in one process.
func (p Peers) BenchPairs(b *testing.B) {
	for name, process := range p {
		l := process(b)
		for _, callers := range []int{1, 2, 4, 8, 16, 32, 64, 256} {
			b.Run(fmt.Sprintf("%s/%d", name, callers), func(b *testing.B) {
				pairs(b, callers, func(i int) (Locker, string) { return l, fmt.Sprint("key", i) })
			})
		}
	}
}

// BenchHotKey has callers, of one process and of several, that want the same key.
func (p Peers) BenchHotKey(b *testing.B) {
	for name, process := range p {
		var all []Locker
		for range 4 {
			all = append(all, process(b))
		}
		for _, c := range []struct{ callers, processes int }{{16, 1}, {64, 1}, {2, 2}, {16, 4}} {
			b.Run(fmt.Sprintf("%s/%d of %d", name, c.callers, c.processes), func(b *testing.B) {
				pairs(b, c.callers, func(i int) (Locker, string) { return all[i%c.processes], "hot-" + name })
			})
		}
	}
}

// BenchHandOver measures from the call of the release in one process to the grant in another, which waits.
func (p Peers) BenchHandOver(b *testing.B) {
	for name, process := range p {
		two := []Locker{process(b), process(b)}
		b.Run(name, func(b *testing.B) {
			take := func(i int) func(context.Context) error {
				unlock, err := two[i%2].Lock(b.Context(), "handed-"+name)
				if err != nil {
					b.Error(err)
					return func(context.Context) error { return err }
				}
				return unlock
			}
			unlock := take(0)
			for i := range b.N {
				b.StopTimer()
				next := make(chan func(context.Context) error)
				go func() { next <- take(i + 1) }()
				time.Sleep(50 * time.Millisecond) // it is in the queue
				b.StartTimer()
				checktest.Must(b, unlock(b.Context()))
				unlock = <-next
			}
			b.StopTimer()
			checktest.Must(b, unlock(b.Context()))
		})
	}
}

// pairs takes and releases b.N times, by so many callers.
func pairs(b *testing.B, callers int, next func(caller int) (Locker, string)) {
	var left atomic.Int64
	left.Store(int64(b.N))
	var all sync.WaitGroup
	b.ResetTimer()
	for i := range callers {
		all.Go(func() {
			l, key := next(i)
			for left.Add(-1) >= 0 && !b.Failed() {
				unlock, err := l.Lock(b.Context(), key)
				if err == nil {
					err = unlock(b.Context())
				}
				if err != nil {
					b.Error(err)
				}
			}
		})
	}
	all.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pairs/s")
}
