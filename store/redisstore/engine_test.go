package redisstore_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/redistest"
)

// engine makes an engine that stands for a process of its own.
func engine(t testing.TB, server *redistest.Server, opts ...core.EngineOption) *core.Engine {
	t.Helper()
	e, err := core.New(open(t, server.Client()), opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(within(t, 5*time.Second)); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return e
}

// TestHotKey has two processes with many callers each add to a number that
// nothing else protects.
func TestHotKey(t *testing.T) {
	t.Parallel()
	const callers, rounds = 8, 20
	server := redistest.Start(t)
	var inside atomic.Int64
	var mu sync.Mutex // for the race detector, which can't see locks in Redis
	var sum int
	var last uint64
	var all sync.WaitGroup
	for range 2 {
		eng := engine(t, server)
		for range callers {
			all.Go(func() {
				for range rounds {
					err := eng.Do(context.Background(), "k", func(ctx context.Context) error {
						if inside.Add(1) != 1 {
							t.Error("two are in")
						}
						defer inside.Add(-1)
						mu.Lock()
						read, before := sum, last
						mu.Unlock()
						lease, _ := core.LeaseFrom(ctx)
						if lease.Token() <= before {
							t.Errorf("token %d follows %d", lease.Token(), before)
						}
						mu.Lock()
						sum, last = read+1, lease.Token()
						mu.Unlock()
						return nil
					})
					if err != nil {
						t.Errorf("Do: %v", err)
					}
				}
			})
		}
	}
	all.Wait()
	if want := 2 * callers * rounds; sum != want {
		t.Errorf("%d of %d additions were lost", want-sum, want)
	}
}

// TestOnceAcrossProcesses delivers every message to both of two processes.
func TestOnceAcrossProcesses(t *testing.T) {
	t.Parallel()
	const messages = 25
	server := redistest.Start(t)
	var runs, duplicates atomic.Int64
	var all sync.WaitGroup
	for range 2 {
		eng := engine(t, server)
		for m := range messages {
			all.Go(func() {
				want := fmt.Sprint("result of ", m)
				out, err := eng.Once(context.Background(), fmt.Sprint("msg:", m), func(context.Context) ([]byte, error) {
					runs.Add(1)
					return []byte(want), nil
				})
				if err != nil {
					t.Errorf("Once: %v", err)
				}
				if string(out.Result) != want {
					t.Errorf("message %d: %q", m, out.Result)
				}
				if out.Duplicate {
					duplicates.Add(1)
				}
			})
		}
	}
	all.Wait()
	if runs.Load() != messages || duplicates.Load() != messages {
		t.Errorf("%d messages were run %d times and recognized %d times", messages, runs.Load(), duplicates.Load())
	}
}

// TestOnceWaitersGetTheRecord has several processes wait while one runs, all of
// which are content with its result: none of them needs a turn.
func TestOnceWaitersGetTheRecord(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	a := open(t, server.Client(), noPolling)
	g := lock(t, a, "holder", "k", time.Minute)
	var all sync.WaitGroup
	for i := range 4 {
		s := open(t, server.Client(), noPolling)
		inLine := make(chan struct{})
		all.Go(func() {
			req := request(fmt.Sprint("w", i), "k", time.Minute)
			req.Wait, req.OnHeld = true, func(driver.HeldError) { close(inLine) }
			_, rec, err := s.Begin(within(t, 5*time.Second), req)
			if err != nil || rec == nil || string(rec.Result) != "\x00result:\xff" {
				t.Errorf("Begin: %+v, %v", rec, err)
			}
		})
		<-inLine
	}
	rec := driver.Record{Fingerprint: []byte("a:b"), Result: []byte("\x00result:\xff")}
	if err := a.Complete(within(t, time.Second), g, rec, time.Minute); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	eventually(t, soon, "the lock is free", func() bool {
		return server.Client().Exists(context.Background(), "lock:k").Val() == 0
	})
}

// TestNothingStaysBehind uses a thousand keys, with and without waiting.
func TestNothingStaysBehind(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	server := redistest.Start(t)
	a, b := open(t, server.Client()), open(t, server.Client())
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			for j := range 20 {
				key := fmt.Sprintf("k%d-%d", i, j)
				g := lock(t, a, "o", key, time.Minute)
				if j%4 == 0 {
					w := enqueue(t, b, "w-"+key, key, time.Minute)
					release(t, a, g)
					g = w.granted(5 * time.Second)
				}
				release(t, b, g)
			}
		})
	}
	all.Wait()
	keys := server.Client().Keys(ctx, "*").Val()
	if len(keys) != 1 || keys[0] != "{lock:}:token" {
		t.Errorf("%d keys are left: %.10q", len(keys), keys)
	}
	// While something is there, it has an expiry.
	lock(t, a, "holder", "k", time.Minute)
	enqueue(t, b, "w", "k", time.Minute)
	for _, key := range server.Client().Keys(ctx, "*k*").Val() {
		if ttl := server.Client().PTTL(ctx, key).Val(); ttl < 0 && key != "{lock:}:token" {
			t.Errorf("%q stays for ever", key)
		}
	}
}
