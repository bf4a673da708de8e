package redisstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/servertest"
)

// The network lost a request, and TCP sent it again after 0.2 s. Until then the client had given up
// its connection, had sent the request on another one, and the lease had come and gone. The copy
// took the key once more, for nobody: it stayed locked for its whole TTL of 30 s.
func TestALateCopyOfARequestKeepsNoKey(t *testing.T) {
	t.Parallel()
	const late = 400 * time.Millisecond
	claims := map[string]func(*core.Engine) (*core.Lease, error){
		"exclusive": func(e *core.Engine) (*core.Lease, error) { return e.Acquire(context.Background(), "k") },
		"shared": func(e *core.Engine) (*core.Lease, error) {
			return e.Acquire(context.Background(), "k", core.WithShared())
		},
		"set": func(e *core.Engine) (*core.Lease, error) {
			return e.AcquireAll(context.Background(), []core.Claim{core.Exclusive("k"), core.Exclusive("l")})
		},
		"min hold": func(e *core.Engine) (*core.Lease, error) {
			return e.Acquire(context.Background(), "k", core.WithMinHold(time.Second))
		},
	}
	for name, ask := range claims {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := database(t)
			p := servertest.NewProxy(t, server.Addr())
			eng := newEngineWith(t, open(t, throughProxy(server, p, hasty)), 30*time.Second)
			if l, err := ask(eng); err != nil { // connections and scripts are there from now on
				t.Fatal(err)
			} else {
				returned(t, l)
			}
			freeFor(t, server, late, soon)

			p.DelayNext(late)
			began := time.Now()
			l, err := ask(eng)
			if err != nil {
				t.Fatal(err)
			}
			if time.Since(began) > late {
				t.Skipf("the request was answered only after %v, with its copy", time.Since(began))
			}
			returned(t, l)
			freeFor(t, server, 2*late, soon)
		})
	}
}

// The same for a request that its caller has given up.
func TestALateCopyOfAnAbandonedRequestKeepsNoKey(t *testing.T) {
	long(t)
	t.Parallel()
	const late = time.Second
	server := redistest.Start(t)
	p := servertest.NewProxy(t, server.Addr())
	s := open(t, throughProxy(server, p, hasty))
	lease(t, s, "warm", driver.Exclusive("warm"))
	p.Delay(late)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	_, err := s.Acquire(ctx, driver.Request{Owner: "o", Claims: []driver.Claim{driver.Exclusive("k")}, TTL: 30 * time.Second})
	if err == nil {
		t.Fatal("the request was answered")
	}
	p.Delay(0)
	freeFor(t, server, 2*late, soon)
}

func returned(t *testing.T, l *core.Lease) {
	t.Helper()
	if err := l.Release(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// freeFor waits until the key "k" has been free for d, and fails if that takes patience longer.
func freeFor(t *testing.T, server *redistest.Server, d, patience time.Duration) {
	t.Helper()
	client := server.Client()
	end := time.Now().Add(d + patience)
	for since := time.Now(); time.Since(since) < d; time.Sleep(5 * time.Millisecond) {
		left, err := client.PTTL(context.Background(), "lock:k").Result()
		if err != nil {
			t.Fatal(err)
		}
		if left >= 0 {
			since = time.Now()
		}
		if time.Now().After(end) {
			t.Fatalf("the key is still locked, for %v more", left)
		}
	}
}
