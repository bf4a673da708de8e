package zkstore

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/casstore"
	"github.com/keyturn/keyturn/internal/keystate"
)

// The nodes of the store, below its root:
//
//	clock                      written to read the leader's clock
//	i/<process>                where a process is told of its leases (inbox); ephemeral
//	b/<bucket>/<key>           a lock
//	  h-<owner>                a holder's lease
//	  w-<owner>-<claim>-<nr>   a waiter; it ends with its process's session
//	  r                        the record of a finished execution
//	  v                        the version of AdvanceVersion
//	  f-<owner>                why a lease was taken by force
const (
	clockNode    = "/clock"
	bucketsNode  = "/b"
	holderNode   = "h-"
	waiterNode   = "w-"
	forcedNode   = "f-"
	recordNode   = "r"
	versionNode  = "v"
	bucketDigits = 3 // of hex
	idDigits     = 32
)

// A node with a million children could not be listed: its list would be larger than jute.maxbuffer
// lets through. So keys are spread over 4096 nodes.
func bucketOf(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])[:bucketDigits]
}

// nodeID names an owner in the names of nodes. An owner's lease and its place in the queue are found
// by it, also by a process that does not know whether its own request arrived.
func nodeID(owner string) string {
	sum := sha256.Sum256([]byte(owner))
	return hex.EncodeToString(sum[:])[:idDigits]
}

// lockNames are keys as names of nodes. A dot is escaped, as "." and ".." are no names.
var lockNames = casstore.Names{Plain: "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_:@=+,~", Mark: '%'}

// bucketPath is the parent of a lock.
func (s *Store) bucketPath(bucket string) string { return s.cfg.root + bucketsNode + "/" + bucket }

// lockPath is the node of a lock.
func (s *Store) lockPath(key string) string {
	return s.bucketPath(bucketOf(key)) + "/" + lockNames.Of(key)
}

// claims are the letters of modes in the names of waiters. Whose turn it is follows from the list
// of names alone, so a decision does not read the nodes of all waiters.
var claims = map[driver.Mode]string{driver.ModeExclusive: "x", driver.ModeShared: "s", driver.ModePermit: "p"}

// onceMark is in the name of a waiter that also takes a record.
const onceMark = "o"

// waiterName is the name of a waiter's node without its number, which the server adds.
func waiterName(id string, m *keystate.Member) string {
	code := claims[m.Mode]
	if m.Mode == driver.ModePermit {
		code += strconv.Itoa(m.Permits)
	}
	if m.Once {
		code += onceMark
	}
	return waiterNode + id + "-" + code + "-"
}

// waiterOf reads the name of a waiter's node.
func waiterOf(name string) (*node, bool) {
	rest, ok := strings.CutPrefix(name, waiterNode)
	if !ok || len(rest) < idDigits+1 || rest[idDigits] != '-' {
		return nil, false
	}
	n := &node{id: rest[:idDigits], name: name, waits: true}
	code, number, ok := strings.Cut(rest[idDigits+1:], "-")
	if !ok || code == "" {
		return nil, false
	}
	// The number is that of the creations below the lock, an int32 that may overflow.
	nr, err := strconv.ParseInt(number, 10, 32)
	if err != nil {
		return nil, false
	}
	n.nr = uint64(uint32(nr)) + 1
	if c, cut := strings.CutSuffix(code, onceMark); cut {
		code, n.once = c, true
	}
	switch {
	case code == claims[driver.ModeExclusive]:
	case code == claims[driver.ModeShared]:
		n.data.Mode = driver.ModeShared
	case strings.HasPrefix(code, claims[driver.ModePermit]):
		n.data.Mode = driver.ModePermit
		if n.data.Permits, err = strconv.Atoi(code[1:]); err != nil || n.data.Permits < 1 {
			return nil, false
		}
	default:
		return nil, false
	}
	return n, true
}

// children are the names below a lock, sorted into what they stand for.
type children struct {
	holders []string
	waiters []*node // in order of arrival, one for each owner
	forced  []string
	stray   []string // places in the queue that their owners have no use for
	record  bool
	version bool
}

func parseChildren(names []string) (c children) {
	holds := make(map[string]bool)
	for _, name := range names {
		switch {
		case strings.HasPrefix(name, holderNode):
			c.holders = append(c.holders, name)
			holds[name[len(holderNode):]] = true
		case strings.HasPrefix(name, forcedNode):
			c.forced = append(c.forced, name)
		case name == recordNode:
			c.record = true
		case name == versionNode:
			c.version = true
		default:
			if n, ok := waiterOf(name); ok {
				c.waiters = append(c.waiters, n)
			}
		}
	}
	slices.Sort(c.holders)
	slices.SortFunc(c.waiters, func(a, b *node) int { return cmp.Or(cmp.Compare(a.nr, b.nr), cmp.Compare(a.id, b.id)) })
	// A request whose answer was lost may have joined the queue twice, or joined it although it was
	// granted.
	c.waiters = slices.DeleteFunc(c.waiters, func(n *node) bool {
		if holds[n.id] {
			c.stray = append(c.stray, n.name)
			return true
		}
		holds[n.id] = true
		return false
	})
	return c
}
