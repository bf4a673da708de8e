package redisstore_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/internal/storetest"
	"github.com/keyturn/keyturn/store/redisstore"
)

// exhaust has the server be out of memory: it takes more than this by itself.
func exhaust(t testing.TB, servers ...*redistest.Server) {
	t.Helper()
	for _, server := range servers {
		set(t, server, "maxmemory", "1mb")
		check(t, used(t, server) > 1<<20, "there is memory left: this tests nothing")
	}
}

// begin asks for a record or the lease.
func begin(t testing.TB, s driver.Store, owner, key string) (driver.Grant, *driver.Record, error) {
	t.Helper()
	return s.Begin(within(t, 5*time.Second), request(owner, key, time.Minute))
}

// record has owner execute key once.
func record(t testing.TB, s driver.Store, owner, key, result string) {
	t.Helper()
	g, _, err := begin(t, s, owner, key)
	must(t, err)
	must(t, s.Complete(within(t, 5*time.Second), g, driver.Record{Result: []byte(result)}, time.Hour))
}

// TestNoExecutionBeginsWithoutMemory, as its record would need some: neither on a free key nor for the next in line, to
// whom the lock is passed and who would need none for that.
func TestNoExecutionBeginsWithoutMemory(t *testing.T) {
	t.Parallel()
	checktest.Each(t, map[string]func(*testing.T) ([]*redistest.Server, redis.UniversalClient){
		"one server": func(t *testing.T) ([]*redistest.Server, redis.UniversalClient) {
			server := redistest.Start(t)
			return []*redistest.Server{server}, server.Client()
		},
		"cluster": func(t *testing.T) ([]*redistest.Server, redis.UniversalClient) {
			servertest.Long(t)
			servers, client := startCluster(t)
			return servers, client
		},
	}, func(t *testing.T, start func(*testing.T) ([]*redistest.Server, redis.UniversalClient)) {
		servers, client := start(t)
		s := open(t, client, quickLooks)
		h := lock(t, s, "holder", "passed", time.Minute)
		next := storetest.Enqueue(t, executing{s}, request("next", "passed", time.Minute))
		record(t, s, "first", "recorded", "r")
		exhaust(t, servers...)

		_, _, err := begin(t, s, "o", "free")
		outage(t, "Begin on a free key", err, redisstore.ErrOutOfMemory)
		release(t, s, h)
		wantIs(t, "Begin of the next in line", next.Refused(), redisstore.ErrOutOfMemory)
		eventually(t, 5*time.Second, "what was passed to it is free again", func() bool {
			return client.Exists(bg, "lock:passed").Val() == 0
		})
		_, rec, err := begin(t, s, "o", "recorded")
		check(t, err == nil && rec != nil, "what is on record needs no memory: %v, %v", rec, err)
		for _, server := range servers {
			set(t, server, "maxmemory", "0")
		}
		_, _, err = begin(t, s, "o", "free")
		wantIs(t, "Begin, with memory again", err, nil)
	})
}

// TestNoExecutionBeginsBehindOthers: in a group commit nothing is refused any more
// once one of the requests has written.
func TestNoExecutionBeginsBehindOthers(t *testing.T) {
	server, s := onServer(t)
	grants := make([]driver.Grant, many)
	for i := 0; i < many; i += 2 {
		grants[i] = lock(t, s, fmt.Sprint("o", i), fmt.Sprint("k", i), time.Minute)
	}
	exhaust(t, server)
	crowd(t, server, func(i int) {
		if i%2 == 0 {
			wantIs(t, "Release", s.Release(within(t, 10*time.Second), grants[i]), nil)
			return
		}
		_, _, err := s.Begin(within(t, 10*time.Second), request(fmt.Sprint("o", i), fmt.Sprint("k", i), time.Minute))
		check(t, errors.Is(err, redisstore.ErrOutOfMemory), "execution %d begins: %v", i, err)
	})
}

// used is how many bytes the server has in use, by its own account.
func used(t testing.TB, server *redistest.Server) (n int) {
	t.Helper()
	out, err := server.CLI("INFO", "memory")
	must(t, err)
	_, rest, _ := strings.Cut(out, "used_memory:")
	_, err = fmt.Sscan(rest, &n)
	must(t, err)
	return n
}

// TestEffectsAreRecordedWithoutMemory: those that began before get their marks, also
// many at once, and their results do not.
func TestEffectsAreRecordedWithoutMemory(t *testing.T) {
	server, s := onServer(t)
	const size = 64 << 10
	grants := make([]driver.Grant, many)
	for i := range many {
		var err error
		grants[i], _, err = begin(t, s, fmt.Sprint("o", i), fmt.Sprint("k", i))
		must(t, err)
	}
	exhaust(t, server)
	before := used(t, server)
	rec := driver.Record{Result: make([]byte, size), Fingerprint: []byte("fp!:"), Trace: "00-trace"}
	crowd(t, server, func(i int) {
		for try := range 2 { // the second as if the answer had been lost
			err := s.Complete(within(t, 30*time.Second), grants[i], rec, time.Minute)
			check(t, errors.Is(err, driver.ErrResultNotKept), "Complete %d, try %d: %v", i, try, err)
		}
	})
	// The buffers of the connections take some hundred KiB for a moment.
	more := used(t, server) - before
	check(t, more <= many/10*size, "%d results of %d bytes took %d bytes of a server that had none", many, size, more)
	for i := range many {
		_, got, err := begin(t, s, "again", fmt.Sprint("k", i))
		if err != nil || got == nil || !got.ResultNotKept || len(got.Result) > 0 ||
			!bytes.Equal(got.Fingerprint, rec.Fingerprint) || got.Trace != rec.Trace {
			t.Fatalf("the record of %d is %+v, %v", i, got, err)
		}
	}
	cli(t, server, "0", "EXISTS", "lock:k0")
}
