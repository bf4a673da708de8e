package etcdstore_test

import (
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/etcdtest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/internal/storetest"
)

// TestSameRevisionsAgain: etcd has lost its data, and the revisions that a store remembers come again.
// What the store remembers must not let it in beside an owner that was granted the lock since.
func TestSameRevisionsAgain(t *testing.T) {
	servertest.LongParallel(t)
	server := etcdtest.Start(t)
	a := on(t, server)
	storetest.Use(t, a, "k")
	server.Forget(t)
	hold(t, on(t, server), request("k", time.Minute))
	storetest.IsHeld(t, a, request("k", 30*time.Second))
}

// TestLeasesForgotten: etcd has lost its data, and with them the leases that many keys share, and more idle leases
// than a request tries.
func TestLeasesForgotten(t *testing.T) {
	servertest.LongParallel(t)
	server := etcdtest.Start(t)
	s := on(t, server)
	for name, do := range map[string]func() error{
		"ForceRelease": func() error {
			hold(t, s, request("forced", time.Minute))
			_, err := s.ForceRelease(t.Context(), "forced", "for the test")
			return err
		},
		"AdvanceVersion": func() error {
			_, err := s.AdvanceVersion(t.Context(), "k", 1, time.Hour)
			return err
		},
		"idle leases": func() error {
			var grants []driver.Grant
			for _, c := range claims(20, driver.Exclusive) {
				grants = append(grants, hold(t, s, request(c.Key, time.Minute)))
			}
			for _, g := range grants {
				release(t, s, g)
			}
			return nil
		},
	} {
		for range 2 {
			err := do()
			check(t, err == nil, "%s: %v", name, err)
			server.Forget(t)
			must(t, checktest.ErrorOf(s.Inspect(t.Context(), "k"))) // the client is connected again
		}
	}
}

// TestBackupIsRestored: what was released after the backup is held again, until its time is over. A lease
// that was granted since is lost at its next renewal. Tokens rise, as a fence needs it.
func TestBackupIsRestored(t *testing.T) {
	servertest.LongParallel(t)
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
	check(t, next.Token > since.Token && g.Token > last.Token, "tokens %d after %d, and %d after %d, which the backup does not know", next.Token, since.Token, g.Token, last.Token)
}
