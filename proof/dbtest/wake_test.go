package dbtest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/internal/sqltest"
	"github.com/keyturn/keyturn/internal/storetest"
	"github.com/keyturn/keyturn/pgx/pgwake"
	"github.com/keyturn/keyturn/store/sqlstore"
)

// seldom is for stores whose waiters must not learn of their turn by looking.
var seldom = []sqlstore.Option{sqlstore.WithPoll(time.Minute), sqlstore.WithWaiterLease(time.Minute)}

// dial makes a listener that reaches the database at addr.
func dial(t testing.TB, d *sqltest.Database, addr string) *pgwake.Listener {
	t.Helper()
	l, err := pgwake.Dial(t.Context(), d.DSNAt(addr))
	must(t, err)
	t.Cleanup(func() { _ = l.Close() }) // a store that was not made does not close it
	return l
}

// listen makes one for a store.
func listen(t testing.TB, d *sqltest.Database, addr string) sqlstore.Option {
	t.Helper()
	return sqlstore.WithWaker(dial(t, d, addr))
}

// behind makes a request of a that waits for a lease of b's.
func behind(t testing.TB, a, b driver.Store, key string) (hold driver.Grant, w *storetest.Waiting) {
	t.Helper()
	hold = take(t, b, request(key, time.Minute))
	return hold, enqueue(t, a, request(key, time.Minute))
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
	hold, w := behind(t, a, b, "k")
	must(t, b.Release(t.Context(), hold))
	select {
	case <-w.Answered():
		t.Error("the waiter has looked already")
	case <-time.After(300 * time.Millisecond):
	}
	waker.messages <- ""
	w.Granted()
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
	hold, w := behind(t, a, b, "k")
	network.Cut()
	if reason := <-impaired; reason == nil {
		t.Error("no reason")
	}
	server, err := a.Describe().Identity(t.Context())
	check(t, server == "" && err != nil, "the server without messages is %q, %v", server, err)
	must(t, b.Release(t.Context(), hold))
	w.Granted()
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

// A waiter gave up while a question of its own was under way. Its withdrawal overtook the question,
// which then put it back in the queue, or took the key for nobody, until that was undone.
func TestAQuestionIsOverBeforeItsWaiterWithdraws(t *testing.T) {
	onEach(t, func(t *testing.T, d *sqltest.Database) {
		f := new(sqltest.Faults)
		s := open(t, f.Open(t, d), dialectOf(d), quick...)
		other := open(t, d.Open(t), dialectOf(d))
		g := take(t, other, request("k", time.Minute))
		w := enqueue(t, s, request("k", time.Minute))
		held, onward := f.HoldBack(isQuestion)
		defer onward()
		must(t, other.Release(t.Context(), g))
		<-held
		gaveUp := time.Now()
		w.Cancel()
		select { // on a busy machine the waiter may have lost its patience with the question
		case <-w.Answered():
			after := time.Since(gaveUp)
			check(t, after >= 200*time.Millisecond, "after %v, before its question", after)
		case <-time.After(20 * time.Millisecond):
			onward()
			if _, err := w.Answer(); !errors.Is(err, driver.ErrHeld) && time.Since(gaveUp) < time.Second {
				t.Error(err)
			}
		}
	})
}

// isQuestion tells the question of a waiter from the looks and the signs of life of its process.
func isQuestion(query string) bool {
	return strings.HasPrefix(query, "BEGIN") || strings.HasPrefix(query, "START") || strings.Contains(query, "_lock SET")
}
