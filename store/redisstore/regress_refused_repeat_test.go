package redisstore_test

import (
	"errors"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// TestRefusedRepeatOfASet: an owner asked again for its set, with a shorter TTL and one claim in
// another mode. Where a set takes several scripts, the claims before that one had the shorter TTL
// then: they ended sooner than their holder counted on, and a borrower with the granted TTL lost
// them (N7).
func TestRefusedRepeatOfASet(t *testing.T) {
	t.Parallel()
	for name, start := range topologies {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, client := start(t)
			s := open(t, client)
			for _, claims := range [][]driver.Claim{
				{driver.Exclusive("a"), driver.Exclusive("b")},
				{driver.Shared("c"), driver.Exclusive("d")},
				{driver.Permit("e", 1), driver.Exclusive("f")},
			} {
				g := lease(t, s, "o", claims...)
				repeat := driver.Request{Owner: g.Owner, Claims: []driver.Claim{claims[0], driver.Permit(claims[1].Key, 1)}, TTL: time.Second}
				_, err := s.Acquire(within(t, 10*time.Second), repeat)
				if own := (*driver.DeadlockError)(nil); !errors.As(err, &own) || own.Key != claims[1].Key {
					t.Fatalf("%v: want a DeadlockError about %q, got %v", claims, claims[1].Key, err)
				}
				info, err := s.Inspect(within(t, 10*time.Second), claims[0].Key)
				if err != nil || len(info.Holders) != 1 || info.Holders[0].Left < g.TTL/2 {
					t.Errorf("%v: after the refused repeat the lease is %+v, %v", claims, info.Holders, err)
				}
				g.Borrowed, g.Since = true, time.Time{}
				if err := renew(t, s, g); err != nil {
					t.Errorf("%v: a borrower's renewal with the granted TTL: %v", claims, err)
				}
			}
		})
	}
}
