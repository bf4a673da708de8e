package etcdstore_test

import (
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/etcdtest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/internal/storetest"
)

// TestSameRevisionsAgain: etcd has lost its data, and the revisions that a store remembers come again.
// What the store remembers must not let it in beside an owner that was granted the lock since.
func TestSameRevisionsAgain(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
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
	servertest.Long(t)
	t.Parallel()
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
			if err := do(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			server.Forget(t)
			_, err := s.Inspect(t.Context(), "k") // the client is connected again
			must(t, err)
		}
	}
}
