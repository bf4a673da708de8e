package redisstore_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/store/internal/onredis"
)

// soon is within what time a key that nobody holds must be free again after an outage: the engine tries every 0.6 s at
// most. A busy machine may need longer, but by no means the rest of a TTL.
const soon = 5 * time.Second

// refused has the client say at once that its connection is refused.
func refused(o *redis.Options) {
	o.MaxRetries = -1
	onredis.DialOnce(o)
}

// freeSoon waits until another process gets the key.
func freeSoon(t testing.TB, eng *core.Engine, key string) {
	t.Helper()
	eventually(t, soon, key+" is free", func() bool {
		l, err := eng.TryAcquire(within(t, soon), key)
		return err == nil && l.Release(bg) == nil
	})
}

// TestReleasedWhileTheServerIsAway: a server that comes back with its data finds the leases in force whose holders are
// done. The engine releases them: for other processes, and for its own callers, who need not wait for that.
func TestReleasedWhileTheServerIsAway(t *testing.T) {
	servertest.LongParallel(t)
	checktest.Each(t, map[string]time.Duration{"short": 300 * time.Millisecond, "long": 3 * time.Second}, func(t *testing.T, outage time.Duration) {
		server := redistest.Start(t, redistest.KeepData...)
		eng := engine(t, open(t, server.Client(refused)))
		leases := []*core.Lease{acquire(t, eng, "alone"), acquire(t, eng, "shared", core.WithShared()), acquire(t, eng, "own")}
		set, err := eng.AcquireAll(within(t, 10*time.Second), []driver.Claim{driver.Exclusive("a"), driver.Permit("b", 2)})
		must(t, err)
		server.Kill()
		over := time.After(outage)
		var all sync.WaitGroup
		for _, l := range append(leases, set) {
			all.Go(func() { wantIs(t, "release of "+l.Key(), l.Release(bg), core.ErrOutcomeUnknown) })
		}
		<-over
		server.Restart(t)
		all.Wait()
		own := checktest.Async(func() error {
			for deadline := time.Now().Add(soon); ; time.Sleep(time.Millisecond) {
				l, err := eng.TryAcquire(bg, "own")
				if err == nil {
					return l.Release(bg)
				}
				if !errors.Is(err, driver.ErrUnavailable) || time.Now().After(deadline) { // the circuit may be open for a moment
					return err
				}
			}
		})
		other := engine(t, open(t, server.Client()))
		for _, key := range []string{"alone", "shared", "a", "b"} {
			freeSoon(t, other, key)
		}
		wantIs(t, "the same process", <-own, nil)
	})
}

// TestSuccessorOfAnOwedRelease: the first attempt arrived, but its answer did not,
// and by now another process has the key.
func TestSuccessorOfAnOwedRelease(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, network := lossy(t, server, once)
	eng := engine(t, s, core.WithReleaseTimeout(300*time.Millisecond))
	other := engine(t, open(t, server.Client()))
	l := acquire(t, eng, "k")
	network.CutReplies()
	wantIs(t, "release without an answer", l.Release(bg), core.ErrOutcomeUnknown)
	next := acquire(t, other, "k")
	before := calls(t, server) // first: the release may follow at once
	network.Heal()
	eventually(t, soon, "the release is sent again", func() bool { return calls(t, server) > before })
	wantIs(t, "Close, where nothing is owed", eng.Close(within(t, soon)), nil)
	wantIs(t, "the successor's lease", next.Extend(within(t, soon), longTTL), nil)
	wantIs(t, "the successor's release", next.Release(bg), nil)
}
