package dbtest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/observe"
	"github.com/keyturn/keyturn/internal/sqltest"
	"github.com/keyturn/keyturn/store/sqlstore"
)

// lingering makes an engine on a database that tells it when a lease is wanted.
func lingering(t *testing.T, d *sqltest.Database, f *faulty, opts ...core.EngineOption) *core.Engine {
	t.Helper()
	s := open(t, f.open(t, d), sqlstore.Postgres, listen(t, d, d.Server.Addr()))
	return engineOn(t, s, append(opts, core.WithLinger(time.Minute))...)
}

// TestLeasesLinger: a process that asks for the same key again asks the database once. Another one
// that wants the key gets it at once.
func TestLeasesLinger(t *testing.T) {
	d := onPostgres(t)
	f := new(faulty)
	given := make(chan observe.LingerState, 1000)
	a := lingering(t, d, f, core.WithHooks(observe.Hooks{Lingered: func(l observe.Linger) { given <- l.State }}))
	b := lingering(t, d, new(faulty))
	f.breakAt(0, false)
	for range 50 {
		must(t, a.Do(t.Context(), "k", func(context.Context) error { return nil }))
	}
	if n := f.statements(); n != 1 {
		t.Errorf("%d statements for 50 leases", n)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := b.Do(ctx, "k", func(context.Context) error { return nil }); err != nil {
		t.Errorf("the other process: %v", err)
	}
	for state := range given {
		if state == observe.LingerWanted {
			break
		}
	}
	// A caller that does not wait is refused once.
	err := a.Do(ctx, "k", func(context.Context) error { return nil }, core.WithFailFast())
	if !errors.Is(err, core.ErrHeld) {
		t.Errorf("the other's lease lingers, and a caller that does not wait gets %v", err)
	}
	for err != nil {
		if err = a.Do(ctx, "k", func(context.Context) error { return nil }, core.WithFailFast()); ctx.Err() != nil {
			t.Fatalf("it is refused for ever: %v", err)
		}
	}
}

// TestAnotherServerIsNoticed: a lease that the server does not know after a restart is lost long
// before its renewal is due.
func TestAnotherServerIsNoticed(t *testing.T) {
	t.Parallel()
	long(t)
	server := sqltest.StartPostgres(t)
	d := server.Database(t)
	migrate(t, d)
	eng := engineOn(t, open(t, d.Open(t), sqlstore.Postgres, listen(t, d, server.Addr())), core.WithTTL(time.Minute))
	l := lease(t, eng, "k")
	time.Sleep(2 * time.Second) // the engine asks once a second who the server is
	forget(t, d)
	server.Restart(t)
	select {
	case <-l.Done():
	case <-time.After(15 * time.Second):
		t.Error("the lease is not lost, 5 s before its renewal")
	}
}
