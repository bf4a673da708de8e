package dbtest

import (
	"errors"
	"testing"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/pgx/pgwake"
)

// TestNothingBelongsToASession: behind a bouncer with fewer connections than there are clients,
// every transaction may run in another session.
func TestNothingBelongsToASession(t *testing.T) {
	d := onPostgres(t)
	addr := d.Bouncer(t, "default_pool_size = 2").Addr()
	stores := make([]driver.Store, 3)
	for i := range stores {
		stores[i] = open(t, d.OpenWith(t, addr, "default_query_exec_mode=exec"), dialectOf(d), quick...)
	}
	takeTurns(t, stores, 4, 3)
}

// A listener behind a pooler heard nothing, and nothing said so: waiters then looked once a second.
func TestAListenerBehindAPooler(t *testing.T) {
	d := onPostgres(t)
	for mode, want := range map[string]error{"transaction": pgwake.ErrPooler, "session": nil} { // the latter keeps connections
		l, err := pgwake.Dial(t.Context(), d.DSNAt(d.Bouncer(t, "pool_mode = "+mode).Addr()))
		if !errors.Is(err, want) {
			t.Errorf("Dial behind a pooler of a %s: %v", mode, err)
		}
		if err == nil {
			_ = l.Close()
		}
	}
}
