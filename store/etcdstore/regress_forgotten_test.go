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

// TestSameRevisionsAgain: etcd has lost its data, and the revisions that a store remembers come again.
// What the store remembers must not let it in beside an owner that was granted the lock since.
func TestSameRevisionsAgain(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	server := etcdtest.Start(t)
	a := open(t, clienttest.New(t, server.Addr()))
	release(t, a, hold(t, a, request("before", "k", time.Minute)))
	server.Forget(t)
	h := hold(t, open(t, clienttest.New(t, server.Addr())), request("after", "k", time.Minute))
	if g, err := a.Acquire(t.Context(), request("late", "k", 30*time.Second)); !errors.Is(err, driver.ErrHeld) {
		t.Errorf("tokens %d and %d hold the key, %v", h.Token, g.Token, err)
	}
}

// TestIdleLeasesForgotten: etcd has lost its data, and with them more idle leases than a request tries.
func TestIdleLeasesForgotten(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	server := etcdtest.Start(t)
	s := open(t, clienttest.New(t, server.Addr()))
	var grants []driver.Grant
	for _, c := range claims(20, driver.Exclusive) {
		grants = append(grants, hold(t, s, request("o", c.Key, time.Minute)))
	}
	for _, g := range grants {
		release(t, s, g)
	}
	server.Forget(t)
	release(t, s, hold(t, s, request("o", "k", time.Minute)))
}

// TestSharedLeasesForgotten: the same, of the leases that many keys share.
func TestSharedLeasesForgotten(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	server := etcdtest.Start(t)
	s := open(t, clienttest.New(t, server.Addr()))
	force := func() error {
		hold(t, s, request("o", "forced", time.Minute))
		_, err := s.ForceRelease(t.Context(), "forced", "for the test")
		return err
	}
	raise := func() error {
		_, err := s.AdvanceVersion(t.Context(), "k", 1, time.Hour)
		return err
	}
	for name, do := range map[string]func() error{"ForceRelease": force, "AdvanceVersion": raise} {
		for range 2 {
			if err := do(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			server.Forget(t)
			if _, err := s.Inspect(t.Context(), "k"); err != nil { // the client is connected again
				t.Fatal(err)
			}
		}
	}
}
