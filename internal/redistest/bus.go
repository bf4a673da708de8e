//go:build unix

package redistest

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/internal/servertest"
)

// Bus is the connections on which the nodes of a Cluster talk to each other. Clients have others, so
// a node that is cut off from the bus still hears its clients. Make one with [FrontBus].
type Bus struct {
	ways    []*servertest.Proxy
	sources []string // the address from which each node connects
}

// FrontBus puts a proxy in front of the bus of each node. Each node connects to the others from an
// address of its own, which works on Linux only.
func FrontBus(t testing.TB, nodes []*Server) *Bus {
	t.Helper()
	b := &Bus{}
	for i, node := range nodes {
		own := strings.Fields(strings.Trim(command(t, node, "config", "get", "cluster-port"), "map[]"))
		_, bus, _ := strings.Cut(own[0], ":")
		way := servertest.NewProxy(t, net.JoinHostPort("127.0.0.1", bus))
		_, port, _ := net.SplitHostPort(way.Addr())
		b.ways, b.sources = append(b.ways, way), append(b.sources, fmt.Sprint("127.0.1.", i+1))
		for _, setting := range [][2]string{
			{"cluster-announce-ip", "127.0.0.1"}, // the others would take the address that it connects from
			{"bind-source-addr", b.sources[i]},
			{"cluster-announce-bus-port", port},
		} {
			command(t, node, "config", "set", setting[0], setting[1])
			node.more = append(node.more, "--"+setting[0], setting[1]) // for a restart
		}
	}
	if !within(joinTimeout, func() bool {
		return !slices.ContainsFunc(nodes, func(node *Server) bool { return !b.knows(command(t, node, "cluster", "nodes")) })
	}) {
		t.Fatalf("redistest: no bus behind proxies after %v", joinTimeout)
	}
	return b
}

// knows reports whether a list of nodes has the proxies of all of them.
func (b *Bus) knows(nodes string) bool {
	return !slices.ContainsFunc(b.ways, func(way *servertest.Proxy) bool {
		_, port, _ := net.SplitHostPort(way.Addr())
		return !strings.Contains(nodes, "@"+port+" ")
	})
}

// Cut loses everything that node i sends to the others, and they to it, until Heal.
func (b *Bus) Cut(i int) {
	b.ways[i].Blackhole()
	for j, way := range b.ways {
		if j != i {
			way.Shun(b.sources[i])
		}
	}
}

// Heal ends the effect of Cut.
func (b *Bus) Heal() {
	for _, way := range b.ways {
		way.Heal()
	}
}
