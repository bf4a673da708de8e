package redisstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/store/redisstore"
)

// exhaust has the server be out of memory: it takes more than this by itself.
func exhaust(t testing.TB, servers ...*redistest.Server) {
	t.Helper()
	for _, server := range servers {
		set(t, server, "maxmemory", "1mb")
		if n := used(t, server); n <= 1<<20 {
			t.Fatalf("there is memory left, %d bytes are in use: this tests nothing", n)
		}
	}
}

// begin asks for a record or the lease.
func begin(t testing.TB, s driver.Store, owner, key string) (driver.Grant, *driver.Record, error) {
	t.Helper()
	return s.Begin(within(t, 5*time.Second), request(owner, key, time.Minute))
}

// onEach runs a test on one server and on a Cluster.
func onEach(t *testing.T, test func(t *testing.T, servers []*redistest.Server, client redis.UniversalClient)) {
	t.Parallel()
	t.Run("one server", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t)
		test(t, []*redistest.Server{server}, server.Client())
	})
	t.Run("cluster", func(t *testing.T) {
		servertest.Long(t)
		t.Parallel()
		servers, client := startCluster(t)
		test(t, servers, client)
	})
}

// TestNoExecutionBeginsWithoutMemory, as its record would need some: neither on a
// free key nor for the next in line, to whom the lock is passed and who would need
// none for that.
func TestNoExecutionBeginsWithoutMemory(t *testing.T) {
	onEach(t, func(t *testing.T, servers []*redistest.Server, client redis.UniversalClient) {
		s := open(t, client, quickLooks)
		h := lock(t, s, "holder", "passed", time.Minute)
		done := make(chan error, 1)
		queued := make(chan struct{}, 1)
		req := request("next", "passed", time.Minute)
		req.Wait, req.OnHeld = true, func(driver.HeldError) {
			select {
			case queued <- struct{}{}:
			default:
			}
		}
		ctx := within(t, 10*time.Second)
		go func() {
			_, _, err := s.Begin(ctx, req)
			done <- err
		}()
		<-queued
		if _, _, err := begin(t, s, "first", "recorded"); err != nil {
			t.Fatal(err)
		}
		if err := s.Complete(within(t, time.Second), driver.Grant{Owner: "first", Claims: request("", "recorded", 0).Claims, TTL: time.Minute},
			driver.Record{Result: []byte("r")}, time.Minute); err != nil {
			t.Fatal(err)
		}
		exhaust(t, servers...)

		if _, _, err := begin(t, s, "o", "free"); !errors.Is(err, redisstore.ErrOutOfMemory) || !errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("Begin on a free key: %v", err)
		}
		release(t, s, h)
		if err := <-done; !errors.Is(err, redisstore.ErrOutOfMemory) {
			t.Errorf("Begin of the next in line: %v", err)
		}
		eventually(t, 5*time.Second, "what was passed to it is free again", func() bool {
			return client.Exists(context.Background(), "lock:passed").Val() == 0
		})
		if _, rec, err := begin(t, s, "o", "recorded"); err != nil || rec == nil {
			t.Errorf("what is on record needs no memory: %v, %v", rec, err)
		}
		for _, server := range servers {
			set(t, server, "maxmemory", "0")
		}
		if _, _, err := begin(t, s, "o", "free"); err != nil {
			t.Errorf("Begin, with memory again: %v", err)
		}
	})
}

// TestNoExecutionBeginsBehindOthers: in a group commit nothing is refused any more
// once one of the requests has written.
func TestNoExecutionBeginsBehindOthers(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, server.Client())
	grants := make([]driver.Grant, many)
	for i := 0; i < many; i += 2 {
		grants[i] = lock(t, s, fmt.Sprint("o", i), fmt.Sprint("k", i), time.Minute)
	}
	exhaust(t, server)
	crowd(t, server, func(i int) {
		if i%2 == 0 {
			if err := s.Release(within(t, 10*time.Second), grants[i]); err != nil {
				t.Errorf("Release: %v", err)
			}
			return
		}
		_, _, err := s.Begin(within(t, 10*time.Second), request(fmt.Sprint("o", i), fmt.Sprint("k", i), time.Minute))
		if !errors.Is(err, redisstore.ErrOutOfMemory) {
			t.Errorf("execution %d begins: %v", i, err)
		}
	})
}

// used is how many bytes the server has in use, by its own account.
func used(t testing.TB, server *redistest.Server) int {
	t.Helper()
	out, err := server.CLI("INFO", "memory")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(out, "used_memory:")
	n, err := strconv.Atoi(strings.TrimSpace(strings.SplitN(rest, "\n", 2)[0]))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestEffectsAreRecordedWithoutMemory: those that began before get their marks, also
// many at once, and their results do not.
func TestEffectsAreRecordedWithoutMemory(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, server.Client())
	const size = 64 << 10
	grants := make([]driver.Grant, many)
	for i := range many {
		var err error
		if grants[i], _, err = begin(t, s, fmt.Sprint("o", i), fmt.Sprint("k", i)); err != nil {
			t.Fatal(err)
		}
	}
	exhaust(t, server)
	before := used(t, server)
	rec := driver.Record{Result: make([]byte, size), Fingerprint: []byte("fp!:"), Trace: "00-trace"}
	crowd(t, server, func(i int) {
		for try := range 2 { // the second as if the answer had been lost
			if err := s.Complete(within(t, 30*time.Second), grants[i], rec, time.Minute); !errors.Is(err, driver.ErrResultNotKept) {
				t.Errorf("Complete %d, try %d: %v", i, try, err)
			}
		}
	})
	// The buffers of the connections take some hundred KiB for a moment.
	if more := used(t, server) - before; more > many/10*size {
		t.Errorf("%d results of %d bytes took %d bytes of a server that had none", many, size, more)
	}
	for i := range many {
		_, got, err := begin(t, s, "again", fmt.Sprint("k", i))
		if err != nil || got == nil || !got.ResultNotKept || len(got.Result) > 0 ||
			!bytes.Equal(got.Fingerprint, rec.Fingerprint) || got.Trace != rec.Trace {
			t.Fatalf("the record of %d is %+v, %v", i, got, err)
		}
	}
	if out, _ := server.CLI("EXISTS", "lock:k0"); out != "0" {
		t.Error("Complete leaves the lock")
	}
}
