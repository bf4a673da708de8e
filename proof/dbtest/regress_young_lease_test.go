package dbtest

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/pgx/pgwake"
	"github.com/keyturn/keyturn/store/sqlstore"
)

// A process's first lease is a few milliseconds old when the server fails over. The engine must know by then
// which server has granted it: otherwise two processes hold the key until the next renewal.
func TestAYoungLeaseNoticesAFailover(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	dsn := p.DSNAt(p.Server.Addr()+","+p.replica.Addr()) + "&target_session_attrs=read-write"
	l, err := pgwake.Dial(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	eng, err := core.New(open(t, p.open(t), sqlstore.Postgres, sqlstore.WithWaker(l)), core.WithTTL(time.Minute), core.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	p.replica.CaughtUp(t, p.Server)
	p.network.Cut()
	lease, err := eng.Acquire(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	p.fail(t)
	began := time.Now()
	select {
	case <-lease.Done():
		t.Logf("after %v", time.Since(began))
	case <-time.After(10 * time.Second):
		t.Error("the holder never learns that another server answers")
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel() // it does not wait for the lease
	_ = eng.Close(ended)
}
