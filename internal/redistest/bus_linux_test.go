package redistest

import (
	"strings"
	"testing"

	"github.com/keyturn/keyturn/internal/servertest"
)

// TestBus: a node that is cut off from the others serves nobody after a while, although clients still
// reach it. The others serve on. When the cut is over, all of them do.
func TestBus(t *testing.T) {
	servertest.LongParallel(t)
	nodes := StartCluster(t, 3, "--cluster-node-timeout", "500", "--cluster-require-full-coverage", "no")
	bus := FrontBus(t, nodes)
	keys := []string{"bar", "hello", "foo"} // of slots 5061, 866 and 12182, so of nodes 0, 0 and 2
	set := func(node int, key string) string {
		said, err := nodes[node].CLI("SET", key, "v")
		must(t, err)
		return said
	}
	for _, restart := range []bool{false, true} {
		if restart {
			nodes[0].Restart(t)
			require(t, within(joinTimeout, func() bool { return set(0, keys[0]) == "OK" }), "the node does not come back")
		}
		bus.Cut(0)
		check(t, within(joinTimeout, func() bool { return strings.HasPrefix(set(0, keys[0]), "CLUSTERDOWN") }), "a node that is cut off serves on")
		said := set(2, keys[2])
		check(t, said == "OK", "another node says %q", said)
		bus.Heal()
		check(t, within(joinTimeout, func() bool { return set(0, keys[1]) == "OK" }), "the node does not come back")
	}
}
