package redisstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/servertest"
)

// Answers were lost until a lease had ended for its holder, which released it in vain.
// A renewal had reached the server: nobody held the key, and it stayed locked for the
// rest of another TTL, in 8 of 8 tries 10 s after the network was back.
func TestALostLeaseThatWasRenewedIsReleased(t *testing.T) {
	long(t)
	t.Parallel()
	const ttl = 9 * time.Second
	server := redistest.Start(t)
	p := servertest.NewProxy(t, server.Addr())
	holding := newEngineWith(t, open(t, throughProxy(server, p, hasty)), ttl, core.WithReleaseTimeout(200*time.Millisecond))
	other := newEngine(t, open(t, server.Client()))
	l := acquire(t, holding, "k")
	renewed(t, l)

	p.CutReplies()
	<-l.Done()
	if err := l.Release(context.Background()); !errors.Is(err, core.ErrLeaseLost) {
		t.Fatalf("Release: %v", err)
	}
	client := server.Client()
	left := client.PTTL(context.Background(), "lock:k").Val()
	if left < ttl/4 {
		t.Skipf("no renewal arrived: the lease has %v left", left)
	}
	p.Heal()
	began := time.Now()
	freeSoon(t, other, "k")
	if took := time.Since(began); took > left*2/3 {
		t.Errorf("free %v after the network was back; the lease had %v left", took, left)
	}
}

// An extension to a longer TTL arrived and its answer was lost, and so was the release.
// The engine gave the release up after the old TTL; the key stayed locked for 17 s more.
func TestAReleaseAfterAnUnansweredExtensionIsSentAgain(t *testing.T) {
	long(t)
	t.Parallel()
	server := redistest.Start(t)
	p := servertest.NewProxy(t, server.Addr())
	holding := newEngineWith(t, open(t, throughProxy(server, p, hasty)), time.Second, core.WithReleaseTimeout(200*time.Millisecond))
	other := newEngine(t, open(t, server.Client()))
	l := acquire(t, holding, "k")
	renewed(t, l)

	p.CutReplies()
	if err := l.Extend(within(t, time.Second), time.Minute); !errors.Is(err, core.ErrOutcomeUnknown) {
		t.Fatalf("Extend: %v", err)
	}
	p.Blackhole()
	if err := l.Release(context.Background()); err == nil {
		t.Fatal("Release was answered")
	}
	time.Sleep(2 * time.Second) // longer than the old TTL
	if left := server.Client().PTTL(context.Background(), "lock:k").Val(); left < 30*time.Second {
		t.Skipf("the extension did not arrive: the lease has %v left", left)
	}
	p.Heal()
	freeSoon(t, other, "k")
}

// renewed has the server know the script, which it would ask for in vain later.
func renewed(t testing.TB, l *core.Lease) {
	t.Helper()
	if err := l.Extend(within(t, 5*time.Second), 0); err != nil {
		t.Fatal(err)
	}
}

// hasty has the client notice a lost answer soon.
func hasty(o *redis.Options) { o.ReadTimeout, o.MaxRetries = 300*time.Millisecond, -1 }
