package zkstore_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/drivertest"
	"github.com/keyturn/keyturn/internal/zktest"
)

// Somebody has written most of a megabyte into a lock. It must not go as a whole into each conflict, list and log.
func TestALongForeignValueIsShortened(t *testing.T) {
	t.Parallel()
	addr, root := zktest.Shared(t).Addr(), newRoot()
	s, c := open(t, addr, root), admin(t, addr)
	mustAcquire(t, s, request("k", time.Minute))
	node := root + "/b"
	for range 3 { // the bucket, the lock, the lease
		names, _, err := c.Children(node)
		if err != nil || len(names) != 1 {
			t.Fatalf("%s has %q, %v", node, names, err)
		}
		node += "/" + names[0]
	}
	data, _, err := c.Get(node)
	if err != nil {
		t.Fatal(err)
	}
	var value map[string]json.RawMessage
	if err := json.Unmarshal(data, &value); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("é", 1<<17)
	for _, field := range []string{"owner", "rule", "trace"} {
		value[field] = json.RawMessage(`"` + long + `"`)
	}
	if data, err = json.Marshal(value); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Set(node, data, -1); err != nil {
		t.Fatal(err)
	}
	drivertest.Shortened(t, s, "k")

	lock := node[:strings.LastIndex(node, "/")]
	if _, err := c.Set(lock, []byte(long), -1); err != nil { // not JSON
		t.Fatal(err)
	}
	if _, err := s.Acquire(t.Context(), request("k", time.Minute)); err == nil || len(fmt.Sprint(err)) > 2000 {
		t.Errorf("the error has %d bytes: %.300v", len(fmt.Sprint(err)), err)
	}
}
