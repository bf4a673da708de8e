package dbtest

import (
	"errors"
	"testing"

	"github.com/keyturn/keyturn/internal/sqltest"
	"github.com/keyturn/keyturn/pgx/pgwake"
)

// A listener behind a pooler heard nothing, and nothing said so: waiters then looked once a second.
func TestAListenerBehindAPooler(t *testing.T) {
	t.Parallel()
	d := sqltest.Postgres(t)
	if l, err := pgwake.Dial(t.Context(), d.DSNAt(d.Bouncer(t).Addr())); !errors.Is(err, pgwake.ErrPooler) {
		t.Errorf("Dial: %v", err)
		if err == nil {
			_ = l.Close()
		}
	}
	l, err := pgwake.Dial(t.Context(), d.DSNAt(d.Bouncer(t, "pool_mode = session").Addr()))
	if err != nil {
		t.Fatalf("a pooler that keeps connections: %v", err)
	}
	_ = l.Close()
}
