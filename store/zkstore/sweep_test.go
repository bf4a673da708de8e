package zkstore_test

import (
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// TestSweepDeletesWhatIsOver and nothing else. Locks stay for a minute at least, because processes
// remember their versions.
func TestSweepDeletesWhatIsOver(t *testing.T) {
	t.Parallel()
	z := newScene(t)
	s := z.open(t)
	const short = 100 * time.Millisecond
	hold(t, s, request("over", short))
	held := hold(t, s, request("held", time.Minute))
	for key, retention := range map[string]time.Duration{"done": short, "kept": time.Minute} {
		must(t, s.Complete(t.Context(), hold(t, s, request(key, time.Minute)), driver.Record{}, retention))
		_, err := s.AdvanceVersion(t.Context(), key, 1, retention)
		must(t, err)
	}
	time.Sleep(2 * short)
	must(t, s.Sweep(t.Context(), time.Hour))
	check := func(when string, want map[string]int) {
		t.Helper()
		for key, n := range want {
			if left := z.nodes(t, key, ""); len(left) != n {
				t.Errorf("%s, %s has %v, want %d nodes", when, key, left, n)
			}
			if exists, _, err := z.Exists(z.lock(key)); err != nil || !exists {
				t.Errorf("%s, the lock %s is there: %v, %v", when, key, exists, err)
			}
		}
	}
	check("before they have been over for an hour", map[string]int{"over": 1, "held": 1, "done": 2, "kept": 2})
	must(t, s.Sweep(t.Context(), 0))
	check("afterwards", map[string]int{"over": 0, "held": 1, "done": 0, "kept": 2})
	release(t, s, held)
}
