package dbtest

import (
	"sync"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/internal/sqltest"
	"github.com/keyturn/keyturn/pgx/pgwake"
	"github.com/keyturn/keyturn/store/sqlstore"
)

// seldom is for stores whose waiters must not learn of their turn by looking.
var seldom = []sqlstore.Option{sqlstore.WithPoll(time.Minute), sqlstore.WithWaiterLease(time.Minute)}

// listen makes a listener that reaches the database at addr.
func listen(t testing.TB, d *sqltest.Database, addr string) sqlstore.Option {
	t.Helper()
	l, err := pgwake.Dial(t.Context(), d.DSNAt(addr))
	must(t, err)
	t.Cleanup(func() { _ = l.Close() }) // a store that was not made does not close it
	return sqlstore.WithWaker(l)
}

// held makes a request of a that waits for a lease of b's. The test's end ends it.
func held(t *testing.T, a, b driver.Store, key string) (hold driver.Grant, granted chan driver.Grant, waiter string) {
	t.Helper()
	hold = take(t, b, request(key, time.Minute))
	queued, asked := make(chan struct{}), sync.Once{}
	granted = make(chan driver.Grant, 1)
	req := request(key, time.Minute)
	req.Wait, req.OnHeld = true, func(driver.HeldError) { asked.Do(func() { close(queued) }) }
	go func() {
		defer close(granted)
		defer asked.Do(func() { close(queued) }) // an error, too
		if g, err := a.Acquire(t.Context(), req); err == nil {
			granted <- g
		} else if t.Context().Err() == nil {
			t.Errorf("the waiter: %v", err)
		}
	}()
	<-queued
	return hold, granted, req.Owner
}

// told is a waker whose messages the test sends.
type told struct{ messages chan string }

func (told) Channel() string           { return "told" }
func (w told) Messages() <-chan string { return w.messages }
func (told) Server() (string, error)   { return "a server", nil }
func (w told) Close() error            { close(w.messages); return nil }

// TestLostMessagesWakeEverybody: a waiter asks when messages may have been lost, long before it
// would look.
func TestLostMessagesWakeEverybody(t *testing.T) {
	d := onPostgres(t)
	waker := told{make(chan string)}
	a := open(t, d.Open(t), sqlstore.Postgres, append(seldom, sqlstore.WithWaker(waker))...)
	b := open(t, d.Open(t), sqlstore.Postgres)
	hold, granted, _ := held(t, a, b, "k")
	must(t, b.Release(t.Context(), hold))
	select {
	case <-granted:
		t.Error("the waiter has looked already")
	case <-time.After(300 * time.Millisecond):
	}
	waker.messages <- ""
	select {
	case <-granted:
	case <-time.After(10 * time.Second):
		t.Error("the waiter still sleeps")
	}
}

// TestListenerIsCutOff: the engine is told that no messages arrive, and the waiters look for
// themselves until they do again.
func TestListenerIsCutOff(t *testing.T) {
	d := onPostgres(t)
	network := servertest.NewProxy(t, d.Server.Addr())
	a := open(t, d.Open(t), sqlstore.Postgres, append(seldom, listen(t, d, network.Addr()))...)
	b := open(t, d.Open(t), sqlstore.Postgres)
	impaired := make(chan error, 10)
	a.Describe().OnImpaired(func(reason error) { impaired <- reason })
	hold, granted, _ := held(t, a, b, "k")
	network.Cut()
	if reason := <-impaired; reason == nil {
		t.Error("no reason")
	}
	if server, err := a.Describe().Identity(t.Context()); server != "" || err == nil {
		t.Errorf("the server without messages is %q, %v", server, err)
	}
	must(t, b.Release(t.Context(), hold))
	select {
	case <-granted:
	case <-time.After(20 * time.Second):
		t.Error("the waiter still sleeps")
	}
	network.Heal()
	if reason := <-impaired; reason != nil {
		t.Errorf("impaired after the network has healed: %v", reason)
	}
}

// TestAnotherServerIsNoticed: a lease that the server does not know after a restart is lost long
// before its renewal is due.
func TestAnotherServerIsNoticed(t *testing.T) {
	t.Parallel()
	servertest.Long(t)
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
