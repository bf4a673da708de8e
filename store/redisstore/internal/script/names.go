package script

import (
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/internal/onredis"
)

// Topology says what the client is connected to, as far as the scripts need to know.
type Topology int

const (
	// Single is one server, or one master behind Sentinel.
	Single Topology = iota
	// Cluster spreads the keys over slots; a message reaches every node.
	Cluster
	// Ring spreads the keys over servers that know nothing of each other. A message that is
	// published on a key's server does not reach a subscriber on another one.
	Ring
)

// TopologyOf returns what client is connected to.
func TopologyOf(client redis.UniversalClient) Topology {
	switch client.(type) {
	case *redis.ClusterClient:
		return Cluster
	case *redis.Ring:
		return Ring
	default:
		return Single
	}
}

// counterTTL is how long the counter of a single lock outlives its last token. A token is a
// time in µs, so the counter expires when the server's clock is an hour past the last token.
// From then on the clock alone makes the tokens, and these are greater.
//
// While the counter exists, a clock may be set back by any amount: the counter then stays for
// as much longer. The hour covers a clock that is behind the clock that saw the counter expire.
// That may be the clock of the same server, set back after that. Or it is the clock of another
// server that has the slot now, after a failover or a migration.
//
// NTP steps, virtual machines that wake up and clocks that drift apart are off by minutes at
// most. A clock that is wrong by a time zone is not covered; a day would not cover it either.
const counterTTL = time.Hour

// Names makes the names of what the store keeps in Redis. Make one with [NewNames].
type Names struct {
	onredis.Prefix
	topology Topology
	one      any // the name of the counter of a single server
}

// NewNames returns the names for a store with this prefix.
func NewNames(prefix string, topology Topology) Names {
	n := Names{Prefix: onredis.Prefix(prefix), topology: topology}
	n.one = n.Counter()
	return n
}

// Topology returns the topology of the client that the names are for.
func (n Names) Topology() Topology { return n.topology }

// sides are the ends of the names of the side keys, without the counter.
var sides = [...]string{"q", "s", "w", "h", "i", "f", "r"}

// append adds the names of key's keys, in the order of KEYS in the scripts. The braces give the
// side keys the same hash as the lock, so that all are in one slot of a Cluster. No lock has
// braces in its own name, so no lock has the name of another lock's side key. The names are
// parts of one string, because this runs with every call that is not plain.
func (n Names) append(names []string, key string) []string {
	lock := n.Lock(key)
	tag := "{" + lock + "}:"
	var b strings.Builder
	b.Grow(len(sides) * (len(tag) + 1))
	names = append(names, lock)
	for _, side := range sides {
		at := b.Len()
		b.WriteString(tag)
		b.WriteString(side)
		names = append(names, b.String()[at:])
	}
	if n.topology == Single {
		return append(names, n.Counter())
	}
	return append(names, tag+"t")
}

// Counter returns the name of the one counter of a single server.
func (n Names) Counter() string { return "{" + string(n.Prefix) + "}:token" }

// counterOf returns the name of the one counter, or of the counter of c's lock in the same
// slot.
func (n Names) counterOf(c *Call) any {
	if n.topology == Single {
		return n.one
	}
	return "{" + c.Slot(n) + "}:t"
}

// version returns the name of key's version, in the slot of its lock.
func (n Names) version(key string) string { return "{" + n.Lock(key) + "}:v" }

// ofAll returns the keys of all claims, one claim after the other.
func (n Names) ofAll(claims []driver.Claim) []string {
	all := make([]string, 0, (len(sides)+2)*len(claims))
	for _, c := range claims {
		all = n.append(all, c.Key)
	}
	return all
}

// ofRenewal returns the keys of the claims that renew.lua needs.
func (n Names) ofRenewal(claims []driver.Claim) []string {
	all := make([]string, 0, 4*len(claims))
	for _, c := range claims {
		lock := n.Lock(c.Key)
		tag := "{" + lock + "}:"
		all = append(all, lock, tag+"h", tag+"i", tag+"f")
	}
	return all
}

// KeyOf returns the key whose lock or line is called name or, with records, whose record is, if there is one.
func (n Names) KeyOf(name string, records bool) (key string, ok bool) {
	if side, found := strings.CutPrefix(name, "{"); found {
		name, side, ok = strings.Cut(side, "}:")
		if !ok || side != "q" && side != "s" && (side != "r" || !records) {
			return "", false
		}
	}
	return n.Prefix.KeyOf(name)
}

// scriptClaims is how many claims go into one script at most. That is enough for every set that
// people write, and few enough that the server returns to other clients after some
// milliseconds.
const scriptClaims = 256

// Groups divides the claims into groups that one script can process: they are on one server,
// and not too many. The groups are in key order, as the claims are.
func (n Names) Groups(claims []driver.Claim) [][]driver.Claim {
	if n.InOneScript(claims) {
		return [][]driver.Claim{claims}
	}
	return slices.Collect(slices.Chunk(claims, n.claimsPerScript()))
}

// InOneScript reports whether the claims are one group.
func (n Names) InOneScript(claims []driver.Claim) bool { return len(claims) <= n.claimsPerScript() }

func (n Names) claimsPerScript() int {
	if n.topology != Single {
		return 1 // each claim is in a slot, or on a server, of its own
	}
	return scriptClaims
}

// counterTTL returns the constant in milliseconds. 0 means for ever; only the one counter of a
// single server may last for ever.
func (n Names) counterTTL() int64 {
	if n.topology == Single {
		return 0
	}
	return counterTTL.Milliseconds()
}
