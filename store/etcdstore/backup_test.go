package etcdstore_test

import (
	"errors"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/etcdtest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/store/etcdstore/internal/clienttest"
)

// TestBackupIsRestored: what was released after the backup is held again, until its time is over. A lease
// that was granted since is lost at its next renewal. Tokens rise, as a fence needs it.
func TestBackupIsRestored(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	server := etcdtest.Start(t)
	a, b := open(t, clienttest.New(t, server.Addr())), open(t, clienttest.New(t, server.Addr()))
	kept := hold(t, a, request("kept", "kept", time.Minute))
	released := hold(t, a, request("released", "released", 6*time.Second))
	backup := server.Backup(t)
	release(t, a, released)
	since := hold(t, a, request("since", "since", time.Minute))
	var last driver.Grant
	for range 5 {
		last = hold(t, b, request("last", "released", time.Minute))
		release(t, b, last)
	}
	server.Restore(t, backup)

	if err := a.Renew(t.Context(), []driver.Grant{kept})[0]; err != nil {
		t.Errorf("a lease of before the backup: %v", err)
	}
	isLost(t, a.Renew(t.Context(), []driver.Grant{since})[0])
	next := hold(t, b, request("next", "since", time.Minute))
	if next.Token <= since.Token {
		t.Errorf("token %d after %d, which the backup does not know", next.Token, since.Token)
	}
	// The one that has released it last remembers the lock as free.
	if _, err := b.Acquire(t.Context(), request("early", "released", time.Minute)); !errors.Is(err, driver.ErrHeld) {
		t.Errorf("what the backup shows as held: %v", err)
	}
	w := wait(t, b, request("waiter", "released", time.Minute))
	if g := w.granted(); g.Token <= last.Token {
		t.Errorf("token %d after %d, which the backup does not know", g.Token, last.Token)
	}
}
