package natstest

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/servertest"
)

// While the client dials a server that hangs, it answers nobody. Callers waited for it, up to two seconds after
// their time was up.
func TestDialsThatHang(t *testing.T) {
	t.Parallel()
	proxy := servertest.NewProxy(t, start(t, server.Options{}).Addr().String())
	lost := make(chan struct{}, 10)
	nc := connect(t, proxy.Addr(), nats.PingInterval(50*time.Millisecond), nats.Timeout(4*time.Second),
		nats.DisconnectErrHandler(func(*nats.Conn, error) { lost <- struct{}{} }))
	eng, err := core.New(open(t, nc), core.WithLinger(time.Minute), core.WithCircuit(core.Forever))
	must(t, err)
	must(t, eng.Ping(t.Context()))
	proxy.Blackhole()
	<-lost // and the client dials
	for name, call := range map[string]func(context.Context) error{
		"Acquire": func(ctx context.Context) error { return checktest.ErrorOf(eng.Acquire(ctx, "k")) },
		"Inspect": func(ctx context.Context) error { return checktest.ErrorOf(eng.Inspect(ctx, "k")) },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		began := time.Now()
		checktest.WantIs(t, name, call(ctx), core.ErrUnavailable)
		took := time.Since(began)
		checktest.That(t, took < 2*time.Second, "%s had 300ms, and took %v", name, took)
		cancel()
	}
	proxy.Cut() // which ends the dial
	nc.Close()
	must(t, eng.Close(t.Context()))
}
