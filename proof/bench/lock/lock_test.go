package lock

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, system string, server *redistest.Server) *Locker {
	l, err := Open(t.Context(), Config{System: system, Addrs: []string{server.Addr()}, Callers: 8, TTL: 30 * time.Second})
	checktest.Must(t, err)
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// With every library, the benchmark measures a lock that excludes, also another process.
func TestLockExcludes(t *testing.T) {
	server := redistest.Start(t)
	for _, system := range slices.Concat(Libraries(), Mutexed()) {
		t.Run(system, func(t *testing.T) {
			var mu sync.Mutex
			inside := 0
			var all sync.WaitGroup
			for _, l := range []*Locker{open(t, system, server), open(t, system, server)} {
				for range 4 {
					all.Go(func() {
						for range 5 {
							unlock, err := l.Lock(t.Context(), system)
							if err != nil {
								t.Error(err)
								return
							}
							if mu.TryLock() {
								inside++
								time.Sleep(time.Millisecond) // for as long as a second one needs to come in
								mu.Unlock()
							} else {
								t.Error("two hold the key")
							}
							if err := unlock(t.Context()); err != nil {
								t.Error(err)
							}
						}
					})
				}
			}
			all.Wait()
			if inside != 40 {
				t.Errorf("%d sections instead of 40", inside)
			}
		})
	}
}

// A goroutine that waits for the mutex of its process asks the server for nothing.
func TestMutexIsInFrontOfTheServer(t *testing.T) {
	server := redistest.Start(t)
	for _, system := range Mutexed() {
		t.Run(system, func(t *testing.T) {
			l := open(t, system, server)
			unlock, err := l.Lock(t.Context(), system)
			checktest.Must(t, err)
			before := server.CommandCount(t)
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if _, err := l.Lock(ctx, system); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the second caller gets %v", err)
			}
			// One is the question for this number, and rueidislock is not done with the first lock.
			if n := server.CommandCount(t) - before; n > 2 {
				t.Errorf("it sent %d commands", n)
			}
			if err := unlock(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}
