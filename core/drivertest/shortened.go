package drivertest

import (
	"errors"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// Shortened checks what a store shows of a lease whose owner, rule and trace somebody has made very long. In
// conflicts and lists they are cut, and what is shown still names the lease: it is ended by force. keys are all
// that the store lists, in order; the lease is on the first. The store has to be a [driver.Inspector].
func Shortened(t *testing.T, st driver.Store, keys ...string) {
	t.Helper()
	s, key := st.(driver.Inspector), keys[0]
	info, err := s.Inspect(t.Context(), key)
	if err != nil || len(info.Holders) != 1 {
		t.Fatalf("%.300v, %v", info, err)
	}
	h := info.Holders[0]
	if len(h.Owner) > driver.MaxOwnerBytes || len(h.Rule) > driver.MaxNoteBytes || len(h.Trace) > driver.MaxNoteBytes {
		t.Errorf("an owner of %d bytes, a rule of %d, a trace of %d", len(h.Owner), len(h.Rule), len(h.Trace))
	}
	_, err = st.Acquire(t.Context(), driver.Request{Owner: "another", Claims: []driver.Claim{driver.Exclusive(key)}, TTL: time.Minute})
	var held *driver.HeldError
	if !errors.As(err, &held) || held.Holder != h.Owner || len(held.Trace) > driver.MaxNoteBytes {
		t.Errorf("the conflict: %.300v", err)
	}
	page, _, err := s.List(t.Context(), driver.Listing{Limit: 10, Records: true})
	if err != nil || len(page) != len(keys) || page[0].Key != key || page[0].Holders[0].Owner != h.Owner {
		t.Errorf("the list: %.300v, %v", page, err)
	}
	if gone, err := s.ForceRelease(t.Context(), key, "test", h); err != nil || len(gone) != 1 || gone[0].Owner != h.Owner {
		t.Errorf("by force: %.300v, %v", gone, err)
	}
}
