package zkstore_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/goleak"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/zktest"
	"github.com/keyturn/keyturn/store/zkstore"
)

func TestMain(m *testing.M) {
	// Nearly all that these tests do is to wait for leases to end.
	flag.Parse()
	_ = flag.Set("test.parallel", "4") // each server takes a processor for a second when it starts
	goleak.VerifyTestMain(zktest.Main(m))
}

// silent is for stores whose server has settings that are warned of.
var silent = zkstore.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil)))

// session is the longest that the servers of the tests allow.
const session = 20 * zktest.Tick * time.Millisecond

var roots atomic.Int64

// newRoot returns a root that no other test uses.
func newRoot() string { return fmt.Sprintf("/test%d/keyturn", roots.Add(1)) }

// open makes a store that the test closes.
func open(t testing.TB, addr, root string, opts ...zkstore.Option) *zkstore.Store {
	t.Helper()
	s, err := zkstore.New(t.Context(), []string{addr}, append([]zkstore.Option{silent, zkstore.WithRoot(root), zkstore.WithSession(session)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

var owners atomic.Int64

// request asks for an exclusive lease on key.
func request(key string, ttl time.Duration) driver.Request {
	owner := driver.Owner{Host: "test", PID: 1, Instance: 1, Start: time.Unix(1, 0), ID: fmt.Sprintf("%032x", owners.Add(1))}
	return driver.Request{Owner: owner.String(), Claims: []driver.Claim{driver.Exclusive(key)}, TTL: ttl}
}

func mustAcquire(t testing.TB, s *zkstore.Store, req driver.Request) driver.Grant {
	t.Helper()
	g, err := s.Acquire(t.Context(), req)
	if err != nil {
		t.Fatalf("Acquire: %v", err)
	}
	return g
}

// waiting is a request that waits for a key.
type waiting struct {
	req   driver.Request
	held  chan struct{} // closed when it has its place in the queue
	grant driver.Grant
	err   error
	ended chan struct{}
}

// enqueue has a request wait, and returns when it has its place in the queue.
func enqueue(t testing.TB, s *zkstore.Store, req driver.Request) *waiting {
	t.Helper()
	w := start(t, s, req)
	w.waits(t)
	return w
}

// start has a request wait.
func start(t testing.TB, s *zkstore.Store, req driver.Request) *waiting {
	t.Helper()
	w := &waiting{req: req, held: make(chan struct{}), ended: make(chan struct{})}
	var once sync.Once
	w.req.Wait, w.req.OnHeld = true, func(driver.HeldError) { once.Do(func() { close(w.held) }) }
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() { cancel(); <-w.ended })
	go func() {
		defer close(w.ended)
		w.grant, w.err = s.Acquire(ctx, w.req)
	}()
	return w
}

// waits returns when the request has its place in the queue, if it waits.
func (w *waiting) waits(t testing.TB) {
	t.Helper()
	select {
	case <-w.ended:
		t.Fatalf("the request does not wait: %v", w.err)
	default:
	}
	select {
	case <-w.held:
	case <-w.ended:
		t.Fatalf("the request did not wait: %v", w.err)
	case <-time.After(10 * time.Second):
		t.Fatal("the request has no place in the queue after 10 s")
	}
}

// granted returns the grant, which has to come within a while.
func (w *waiting) granted(t testing.TB, within time.Duration) driver.Grant {
	t.Helper()
	select {
	case <-w.ended:
	case <-time.After(within):
		t.Fatalf("no grant after %v", within)
	}
	if w.err != nil {
		t.Fatalf("the waiter got %v", w.err)
	}
	return w.grant
}

// admin is a client of the server that is not a store.
func admin(t testing.TB, addr string) *zk.Conn {
	t.Helper()
	conn, events, err := zk.Connect([]string{addr}, session, zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		for range events {
		}
	})
	return conn
}
