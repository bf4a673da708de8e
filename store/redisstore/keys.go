package redisstore

import (
	"crypto/rand"
	"encoding/hex"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
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

// dayMillis is how long a counter of a single lock outlives its last grant. The
// clock takes over then: a day later it is far ahead of every count.
const dayMillis = int64(24 * time.Hour / time.Millisecond)

// keyspace names what the store keeps in Redis.
type keyspace struct {
	prefix string
	where  topology
}

// of returns the keys of the lock on key, in the order of KEYS in the scripts.
// The braces make the side keys hash like the lock itself, so that all are in
// one slot of a cluster; as no lock has braces in its own name, none can be
// taken for another's side key.
func (ks keyspace) of(key string) []string {
	lock := ks.prefix + key
	tag := "{" + lock + "}"
	counter := tag + ":t"
	if ks.where == single {
		counter = "{" + ks.prefix + "}:token" // one for all
	}
	return []string{lock, tag + ":q", tag + ":w", counter, tag + ":r"}
}

// counterTTL is in milliseconds; 0 means for ever, which only the one counter
// of a single server may be.
func (ks keyspace) counterTTL() int64 {
	if ks.where == single {
		return 0
	}
	return dayMillis
}

// inbox names a channel that no other store has.
func (ks keyspace) inbox() string {
	var id [16]byte
	rand.Read(id[:]) // never fails: crypto/rand ends the program instead
	return ks.prefix + "inbox:" + hex.EncodeToString(id[:])
}

// holderOf is the owner in the value of a lock, or the whole of what a foreign
// client wrote.
func holderOf(value string) string {
	owner, token, ok := strings.Cut(value, ":")
	if !ok || len(token) < len("1763683200000000") || strings.Trim(token, "0123456789") != "" {
		return value
	}
	return owner
}
