package script

import (
	"strings"
	"testing"
)

// TestKeysShareTheSlot looks at what is between the braces, as a cluster does.
func TestKeysShareTheSlot(t *testing.T) {
	for _, where := range []Topology{Single, Cluster, Ring} {
		names := NewNames("lock:", where)
		keys := names.append(nil, "k")
		seen := map[string]bool{}
		for _, key := range keys {
			check(t, !seen[key], "%q twice", key)
			seen[key] = true
			tag := key
			if _, rest, ok := strings.Cut(key, "{"); ok {
				tag, _, _ = strings.Cut(rest, "}")
			}
			check(t, tag == "lock:k" || where == Single && key == "{lock:}:token", "%q is in another slot than the lock", key)
		}
		forEver := names.counterTTL() == 0
		check(t, forEver == (where == Single), "topology %d: the counter stays for ever: %t", where, forEver)
	}
}
