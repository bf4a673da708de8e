package redisstore_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/store/redisstore"
)

// noPolling keeps waiters from looking by themselves while a test counts.
var noPolling = redisstore.WithWaiterLease(2 * time.Minute)

// calls is the number of scripts the server has been asked to run.
func calls(t testing.TB, server *redistest.Server) int64 {
	c := server.Commands(t)
	return c["evalsha"] + c["eval"]
}

// waiting is the number of owners in line for key.
func waiting(t testing.TB, server *redistest.Server, key string) int64 {
	t.Helper()
	pipe := server.Client().TxPipeline()
	queue, waiters := pipe.LLen(bg, "{lock:"+key+"}:q"), pipe.HKeys(bg, "{lock:"+key+"}:w")
	must(t, errOf(pipe.Exec(bg)))
	owners := slices.DeleteFunc(waiters.Val(), func(field string) bool { return field == ":foreign" })
	if queue.Val() != int64(len(owners)) {
		t.Fatalf("%d owners are in the queue and %d among the waiters", queue.Val(), len(owners))
	}
	return queue.Val()
}

// quickLooks is for where no message comes.
var quickLooks = redisstore.WithWaiterLease(900 * time.Millisecond)

// waiter is a request that waits in a goroutine.
type waiter struct {
	t      testing.TB
	cancel context.CancelFunc
	done   chan struct{}
	grant  driver.Grant
	err    error
	at     time.Time
}

// enqueue has owner wait for key and returns once it is in line.
func enqueue(t testing.TB, s driver.Store, owner, key string, ttl time.Duration) *waiter {
	t.Helper()
	return wait(t, s, request(owner, key, ttl))
}

// enqueueFor has owner wait for claims and returns once it is in line.
func enqueueFor(t testing.TB, s driver.Store, owner string, claims ...driver.Claim) *waiter {
	t.Helper()
	return wait(t, s, driver.Request{Owner: owner, Claims: claims, TTL: time.Minute})
}

// begins has owner wait for key to execute something, and returns once it is in line.
func begins(t testing.TB, s driver.Store, owner, key string) *waiter {
	t.Helper()
	return waitFor(t, request(owner, key, time.Minute), func(ctx context.Context, req driver.Request) (driver.Grant, error) {
		g, _, err := s.Begin(ctx, req)
		return g, err
	})
}

func wait(t testing.TB, s driver.Store, req driver.Request) *waiter {
	t.Helper()
	return waitFor(t, req, s.Acquire)
}

func waitFor(t testing.TB, req driver.Request, ask func(context.Context, driver.Request) (driver.Grant, error)) *waiter {
	t.Helper()
	ctx, cancel := context.WithTimeout(bg, 30*time.Second)
	w := &waiter{t: t, cancel: cancel, done: make(chan struct{})}
	queued := make(chan struct{}, 1)
	req.Wait = true
	req.OnHeld = func(driver.HeldError) {
		select {
		case queued <- struct{}{}:
		default:
		}
	}
	go func() {
		defer close(w.done)
		w.grant, w.err = ask(ctx, req)
		w.at = time.Now()
	}()
	t.Cleanup(func() {
		cancel()
		<-w.done
	})
	select {
	case <-queued:
	case <-w.done:
		t.Fatalf("a request that has to wait was answered: %+v, %v", w.grant, w.err)
	}
	return w
}

func (w *waiter) isDone() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

// granted returns the grant that must come within d.
func (w *waiter) granted(d time.Duration) driver.Grant {
	w.t.Helper()
	select {
	case <-w.done:
	case <-time.After(d):
		w.t.Fatalf("not granted within %v", d)
	}
	if w.err != nil {
		w.t.Fatalf("the waiter got an error: %v", w.err)
	}
	return w.grant
}

// refused returns the error that must come within d.
func (w *waiter) refused(d time.Duration) error {
	w.t.Helper()
	select {
	case <-w.done:
	case <-time.After(d):
		w.t.Fatalf("the wait did not end within %v", d)
	}
	if w.err == nil {
		w.t.Fatalf("the waiter was granted %+v", w.grant)
	}
	return w.err
}
