package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/servertest"
)

// soon is within what time a key that nobody holds must be free again after an
// outage: the engine tries every 0.6 s at most. A busy machine may need longer, but by
// no means the rest of a TTL.
const soon = 5 * time.Second

// longTTL is that of leases that must not run out while a test looks on.
const longTTL = 5 * time.Minute

// newEngine makes an engine over the server, as a process of its own would.
func newEngine(t testing.TB, s driver.Store, opts ...core.EngineOption) *core.Engine {
	t.Helper()
	return newEngineWith(t, s, longTTL, opts...)
}

// newEngineWith is newEngine with a TTL.
func newEngineWith(t testing.TB, s driver.Store, ttl time.Duration, opts ...core.EngineOption) *core.Engine {
	t.Helper()
	quiet := core.WithLogger(slog.New(slog.DiscardHandler))
	eng, err := core.New(s, append([]core.EngineOption{core.WithTTL(ttl), quiet}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = eng.Close(within(t, 5*time.Second)) })
	return eng
}

func acquire(t testing.TB, eng *core.Engine, key string, opts ...core.CallOption) *core.Lease {
	t.Helper()
	l, err := eng.Acquire(within(t, 10*time.Second), key, opts...)
	if err != nil {
		t.Fatalf("Acquire(%q): %v", key, err)
	}
	return l
}

// refused has the client say at once that its connection is refused. Later versions of
// go-redis than the lowest repeat the dialing, too.
func refused(o *redis.Options) {
	o.MaxRetries = -1
	if retries := reflect.ValueOf(o).Elem().FieldByName("DialerRetries"); retries.IsValid() {
		retries.SetInt(1)
	}
}

// freeSoon waits until another process gets the key, and says how long that took.
func freeSoon(t testing.TB, eng *core.Engine, key string) time.Duration {
	t.Helper()
	began := time.Now()
	eventually(t, soon, key+" is free", func() bool {
		l, err := eng.TryAcquire(within(t, soon), key)
		if err != nil {
			return false
		}
		_ = l.Release(context.Background())
		return true
	})
	return time.Since(began)
}

// TestReleasedWhileTheServerIsAway: a server that comes back with its data finds the
// leases in force whose holders are done. The engine releases them: for other
// processes, and for its own callers, who need not wait for that.
func TestReleasedWhileTheServerIsAway(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	for _, outage := range []time.Duration{300 * time.Millisecond, 3 * time.Second} {
		t.Run(fmt.Sprint(outage), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, redistest.KeepData...)
			eng := newEngine(t, open(t, server.Client(refused)))
			leases := []*core.Lease{acquire(t, eng, "alone"), acquire(t, eng, "shared", core.WithShared()), acquire(t, eng, "own")}
			set, err := eng.AcquireAll(within(t, 10*time.Second), []driver.Claim{driver.Exclusive("a"), driver.Permit("b", 2)})
			if err != nil {
				t.Fatal(err)
			}
			server.Kill()
			over := time.After(outage)
			var all sync.WaitGroup
			for _, l := range append(leases, set) {
				all.Go(func() {
					if err := l.Release(context.Background()); !errors.Is(err, core.ErrOutcomeUnknown) {
						t.Errorf("release of %s while the server is away: %v", l.Key(), err)
					}
				})
			}
			<-over
			server.Restart(t)
			back := time.Now()
			all.Wait()
			own := make(chan error, 1)
			go func() { // the circuit may be open for another moment
				for deadline := time.Now().Add(soon); ; time.Sleep(time.Millisecond) {
					l, err := eng.TryAcquire(context.Background(), "own")
					if err == nil {
						err = l.Release(context.Background())
					}
					if !errors.Is(err, driver.ErrUnavailable) || time.Now().After(deadline) {
						own <- err
						return
					}
				}
			}()
			other := newEngine(t, open(t, server.Client()))
			for _, key := range []string{"alone", "shared", "a", "b"} {
				freeSoon(t, other, key)
			}
			t.Logf("free after %v", time.Since(back).Round(time.Millisecond))
			if err := <-own; err != nil {
				t.Errorf("the same process: %v", err)
			}
			t.Logf("had by the same process after %v", time.Since(back).Round(time.Millisecond))
		})
	}
}

// TestSuccessorOfAnOwedRelease: the first attempt arrived, but its answer did not,
// and by now another process has the key.
func TestSuccessorOfAnOwedRelease(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, network := lossy(t, server, once)
	eng := newEngine(t, s, core.WithReleaseTimeout(300*time.Millisecond))
	other := newEngine(t, open(t, server.Client()))
	l := acquire(t, eng, "k")
	network.CutReplies()
	if err := l.Release(context.Background()); !errors.Is(err, core.ErrOutcomeUnknown) {
		t.Fatalf("release without an answer: %v", err)
	}
	next := acquire(t, other, "k")
	before := calls(t, server) // first: the release may follow at once
	network.Heal()
	eventually(t, soon, "the release is sent again", func() bool { return calls(t, server) > before })
	if err := eng.Close(within(t, soon)); err != nil {
		t.Errorf("Close, where nothing is owed: %v", err)
	}
	if err := next.Extend(within(t, soon), longTTL); err != nil {
		t.Errorf("the successor's lease: %v", err)
	}
	if err := next.Release(context.Background()); err != nil {
		t.Errorf("the successor's release: %v", err)
	}
}
