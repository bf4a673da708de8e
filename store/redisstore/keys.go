package redisstore

import (
	"crypto/rand"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core/driver"
)

// topology is what the client is connected to, as far as the scripts need to
// know.
type topology int

const (
	// single is one server, or one master behind Sentinel.
	single topology = iota
	// cluster spreads the keys over slots; a message reaches every node.
	cluster
	// ring spreads the keys over servers that know nothing of each other, so
	// that a message published beside a key does not reach the subscriber.
	ring
)

func topologyOf(client redis.UniversalClient) topology {
	switch client.(type) {
	case *redis.ClusterClient:
		return cluster
	case *redis.Ring:
		return ring
	default:
		return single
	}
}

// counterTTL is for how long a counter of a single lock outlives its last token, which
// is a time in µs: it expires when the server's clock is an hour beyond. From then on
// the clock alone makes the tokens, and makes greater ones.
//
// While the counter is there a clock may be set back by any amount: the counter then
// stays for as much longer. What the hour covers is a clock that is behind the one
// that saw the counter expire: of the same server, set back after that, or of another
// one that has the slot now, after a failover or a migration. NTP steps, virtual
// machines that wake up and clocks that drift apart are off by minutes at most. A clock
// that is wrong by a time zone is not covered; neither was it by a day.
const counterTTL = time.Hour

// keyspace names what the store keeps in Redis.
type keyspace struct {
	prefix string
	where  topology
	one    any // the name of the counter of a single server
}

func newKeyspace(prefix string, where topology) keyspace {
	ks := keyspace{prefix: prefix, where: where}
	ks.one = ks.counter()
	return ks
}

// of returns the keys of the lock on key, in the order of KEYS in the scripts.
// The braces make the side keys hash like the lock itself, so that all are in
// one slot of a cluster; as no lock has braces in its own name, none can be
// taken for another's side key.
func (ks keyspace) of(key string) []string {
	return ks.append(make([]string, 0, len(sides)+2), key)
}

// sides are the ends of the names of the side keys, but for the counter.
var sides = [...]string{"q", "s", "w", "h", "i", "f", "r"}

// append adds the names of key's keys. They are parts of one string, because
// this runs with every request.
func (ks keyspace) append(names []string, key string) []string {
	lock := ks.prefix + key
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
	if ks.where == single {
		return append(names, ks.counter())
	}
	return append(names, tag+"t")
}

// counter is the one counter of a single server.
func (ks keyspace) counter() string { return "{" + ks.prefix + "}:token" }

// counterOf is the name of the one counter, or of that of r's lock, in the same slot.
func (ks keyspace) counterOf(r *request) any {
	if ks.where == single {
		return ks.one
	}
	return "{" + r.name(ks) + "}:t"
}

// ofAll returns the keys of all claims, one after the other.
func (ks keyspace) ofAll(claims []driver.Claim) []string {
	all := make([]string, 0, (len(sides)+2)*len(claims))
	for _, c := range claims {
		all = ks.append(all, c.Key)
	}
	return all
}

// ofRenewal returns what renew.lua needs of them.
func (ks keyspace) ofRenewal(claims []driver.Claim) []string {
	all := make([]string, 0, 4*len(claims))
	for _, c := range claims {
		lock := ks.prefix + c.Key
		tag := "{" + lock + "}:"
		all = append(all, lock, tag+"h", tag+"i", tag+"f")
	}
	return all
}

// keyOf is the key whose lock, line or record name is, if it is one.
func (ks keyspace) keyOf(name string) (key string, ok bool) {
	if side, found := strings.CutPrefix(name, "{"); found {
		name, side, ok = strings.Cut(side, "}:")
		if !ok || (side != "q" && side != "s" && side != "r") {
			return "", false
		}
	}
	key, ok = strings.CutPrefix(name, ks.prefix)
	return key, ok && driver.ValidateKey(key) == nil
}

// scriptClaims is how many claims go into one script at most: enough for
// every set that people write, and few enough that the server is back with the
// others after some milliseconds.
const scriptClaims = 256

// groups parts the claims into those that one script can take: they are on one
// server, and not too many. The parts are in key order, as the claims are.
func (ks keyspace) groups(claims []driver.Claim) [][]driver.Claim {
	if ks.together(claims) {
		return [][]driver.Claim{claims}
	}
	return slices.Collect(slices.Chunk(claims, ks.groupSize()))
}

// together says that the claims are one group.
func (ks keyspace) together(claims []driver.Claim) bool { return len(claims) <= ks.groupSize() }

func (ks keyspace) groupSize() int {
	if ks.where != single {
		return 1 // each in a slot, or on a server, of its own
	}
	return scriptClaims
}

// counterTTL is the constant in milliseconds; 0 means for ever, which only the one counter
// of a single server may be.
func (ks keyspace) counterTTL() int64 {
	if ks.where == single {
		return 0
	}
	return counterTTL.Milliseconds()
}

// inbox names a channel that no other store has.
func (ks keyspace) inbox() string {
	return ks.prefix + "inbox:" + randomID()
}

func randomID() string {
	var id [16]byte
	rand.Read(id[:]) // never fails: crypto/rand ends the program instead
	return hex.EncodeToString(id[:])
}
