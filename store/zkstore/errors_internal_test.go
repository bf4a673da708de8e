package zkstore

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/keyturn/keyturn/core/driver"
)

// Callers in a hurry kept a patient request from its answer for 2 s. The engine took that for an outage, opened
// its circuit, and ran work unlocked beside a holder, while the servers carried out a write per millisecond.
func TestABusyStoreIsNoOutage(t *testing.T) {
	for name, c := range map[string]struct {
		op      string
		err     error
		ago     time.Duration
		refused bool
	}{
		"others are answered": {"acquire", context.Canceled, 0, true},
		"nobody is":           {"acquire", context.Canceled, 3 * time.Second, false},
		"a lost connection":   {"acquire", zk.ErrConnectionClosed, 3 * time.Second, false},
		"no permission":       {"acquire", zk.ErrNoAuth, 3 * time.Second, true},
		"may have been done":  {"release", context.Canceled, 0, false},
	} {
		p := new(peer)
		p.heard.Store(time.Now().Add(-c.ago).UnixNano())
		s := &Store{link: &link{peer: p}}
		var out *driver.UnavailableError
		err := s.failure(c.op, "k", c.err)
		check(t, errors.As(err, &out) && out.Refused == c.refused, "%s: %v", name, err)
	}
}
