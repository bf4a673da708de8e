package natstest

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/store/natsstore"
)

// TestLeasesLinger: a process that asks for the same key again writes nothing. Another one that wants the
// key gets it by a message, and after a break of the holder's connection, in which messages are lost, without one.
// Nobody would ask again within the test.
func TestLeasesLinger(t *testing.T) {
	t.Parallel()
	srv := start(t, server.Options{})
	engine := func() (*core.Engine, *nats.Conn) {
		nc := connect(t, srv.Addr().String())
		eng, err := core.New(open(t, nc, natsstore.WithWaiterLease(10*time.Minute)), core.WithLinger(time.Minute), core.WithMaxWait(20*time.Second))
		must(t, err)
		t.Cleanup(func() { _ = eng.Close(context.Background()) })
		return eng, nc
	}
	a, nc := engine()
	b, _ := engine()
	nothing := func(context.Context) error { return nil }
	must(t, a.Do(t.Context(), "k", nothing))
	before := nc.Stats().OutMsgs
	for range 50 {
		must(t, a.Do(t.Context(), "k", nothing))
	}
	if n := nc.Stats().OutMsgs - before; n > 5 { // the engine asks for the server's identity meanwhile
		t.Errorf("%d requests for 50 leases", n)
	}
	if err := b.Do(t.Context(), "k", nothing); err != nil {
		t.Errorf("the other process: %v", err)
	}
	must(t, a.Do(t.Context(), "k", nothing))
	must(t, nc.ForceReconnect())
	if err := b.Do(t.Context(), "k", nothing); err != nil {
		t.Errorf("after the holder's connection broke: %v", err)
	}
}
