package zkstore_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/drivertest"
)

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
	_, err = z.Set(node, data, -1)
	must(t, err)
	drivertest.Shortened(t, s, "k")

	_, err = z.Set(z.lock("k"), []byte(long), -1) // not JSON
	must(t, err)
	if _, err := s.Acquire(t.Context(), request("k", time.Minute)); err == nil || len(err.Error()) > 2000 {
		t.Errorf("the error is not short: %.300v", err)
	}
}
