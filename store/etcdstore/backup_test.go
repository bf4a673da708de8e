package etcdstore_test

import (
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/etcdtest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/internal/storetest"
)

// TestBackupIsRestored: what was released after the backup is held again, until its time is over. A lease
// that was granted since is lost at its next renewal. Tokens rise, as a fence needs it.
func TestBackupIsRestored(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	server := etcdtest.Start(t)
	a, b := on(t, server), on(t, server)
	kept := hold(t, a, request("kept", time.Minute))
	released := hold(t, a, request("released", 6*time.Second))
	backup := server.Backup(t)
	release(t, a, released)
	since := hold(t, a, request("since", time.Minute))
	var last driver.Grant
	for range 5 {
		last = hold(t, b, request("released", time.Minute))
		release(t, b, last)
	}
	server.Restore(t, backup)

	must(t, a.Renew(t.Context(), []driver.Grant{kept})[0])
	storetest.IsLost(t, a.Renew(t.Context(), []driver.Grant{since})[0])
	next := hold(t, b, request("since", time.Minute))
	// The one that has released it last remembers the lock as free.
	storetest.IsHeld(t, b, request("released", time.Minute))
	g := enqueue(t, b, request("released", time.Minute)).Granted()
	if next.Token <= since.Token || g.Token <= last.Token {
		t.Errorf("tokens %d after %d, and %d after %d, which the backup does not know", next.Token, since.Token, g.Token, last.Token)
	}
}
