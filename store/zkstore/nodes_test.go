package zkstore_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/drivertest"
	"github.com/keyturn/keyturn/internal/storetest"
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
		must(t, storetest.ErrorOf(s.AdvanceVersion(t.Context(), key, 1, retention)))
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

// Somebody has written most of a megabyte into a lock. It must not go as a whole into each conflict, list and log.
func TestALongForeignValueIsShortened(t *testing.T) {
	t.Parallel()
	z := newScene(t)
	s := z.open(t)
	node := z.lock("k") + "/h-" + nodeOf(hold(t, s, request("k", time.Minute)).Owner)
	data, _, err := z.Get(node)
	must(t, err)
	var value map[string]json.RawMessage
	must(t, json.Unmarshal(data, &value))
	long := strings.Repeat("é", 1<<17)
	for _, field := range []string{"owner", "rule", "trace"} {
		value[field] = json.RawMessage(`"` + long + `"`)
	}
	data, err = json.Marshal(value)
	must(t, err)
	must(t, storetest.ErrorOf(z.Set(node, data, -1)))
	drivertest.Shortened(t, s, "k")

	must(t, storetest.ErrorOf(z.Set(z.lock("k"), []byte(long), -1))) // not JSON
	if _, err := s.Acquire(t.Context(), request("k", time.Minute)); err == nil || len(err.Error()) > 2000 {
		t.Errorf("the error is not short: %.300v", err)
	}
}
