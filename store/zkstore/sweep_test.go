package zkstore_test

import (
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/zktest"
)

// TestSweepDeletesWhatIsOver and nothing else. Locks stay for a minute at least, because processes
// remember their versions.
func TestSweepDeletesWhatIsOver(t *testing.T) {
	t.Parallel()
	server := zktest.Shared(t)
	root := newRoot()
	s := open(t, server.Addr(), root)
	c := admin(t, server.Addr())
	const short = 100 * time.Millisecond
	mustAcquire(t, s, request("over", short))
	held := mustAcquire(t, s, request("held", time.Minute))
	for key, retention := range map[string]time.Duration{"done": short, "kept": time.Minute} {
		if err := s.Complete(t.Context(), mustAcquire(t, s, request(key, time.Minute)), driver.Record{}, retention); err != nil {
			t.Fatal(err)
		}
		if _, err := s.AdvanceVersion(t.Context(), key, 1, retention); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(2 * short)
	if err := s.Sweep(t.Context(), time.Hour); err != nil {
		t.Fatal(err)
	}
	check := func(when string, want map[string]int) {
		t.Helper()
		for key, n := range want {
			if left := nodes(t, c, lockNode(root, key), ""); len(left) != n {
				t.Errorf("%s, %s has %v, want %d nodes", when, key, left, n)
			}
			if exists, _, err := c.Exists(lockNode(root, key)); err != nil || !exists {
				t.Errorf("%s, the lock %s is there: %v, %v", when, key, exists, err)
			}
		}
	}
	check("before they have been over for an hour", map[string]int{"over": 1, "held": 1, "done": 2, "kept": 2})
	if err := s.Sweep(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	check("afterwards", map[string]int{"over": 0, "held": 1, "done": 0, "kept": 2})
	mustRelease(t, s, held)
}
