package model

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// op is what a step of a program does.
type op string

// The operations. Those after opAsk are done by an owner that asked before: see Step.who.
const (
	opAsk      op = "ask"             // Acquire by a new owner, or Begin with once
	opAgain    op = "again"           // Acquire by an owner that holds what it asks for
	opChange   op = "change"          // the same, for another mode
	opShare    op = "share"           // Downgrade
	opRenew    op = "renew"           // renews count leases at once
	opPart     op = "part"            // renews only the first claim of a set
	opBorrow   op = "borrow"          // renews as another process that the owner told of its lease
	opRelease  op = "release"         // also of what was lost
	opGiveUp   op = "give up"         // ends a wait
	opComplete op = "complete"        // completes what was requested with once
	opExpire   op = "expire"          // renews for a moment only, and lets that pass
	opAdvance  op = "advance_version" // raises the version of key
	opForget   op = "forget"          // drops the record and the version of key
	opForce    op = "force"           // ForceRelease of key
	opBreak    op = "break"           // ForceRelease of one claim of what who was granted
	opPass     op = "pass"            // lets ttl pass
	opList     op = "list"            // lists all keys, page by page
)

// Step is one step of a program. Fields that its operation does not need are ignored. A step
// that no owner can take is skipped. So a program makes sense without any of its steps, and
// shrinking can remove them.
type Step struct {
	op   op
	wait bool
	once bool // opAsk: Begin, for the first key exclusively
	// who says which of the owners that can do this operation does it, counted from 0, the last
	// one first.
	who     int
	count   int
	claims  []driver.Claim // in key order
	mode    driver.Mode    // opChange
	key     string
	version uint64 // opAdvance
	flaw    flaw
	ttl     time.Duration
	notKept bool // opComplete: the result
}

// GoString is how a program that failed is shown.
func (s Step) GoString() string {
	switch s.op {
	case opAsk:
		return s.question()
	case opForce, opForget:
		return fmt.Sprintf("%s %s", s.op, s.key)
	case opAdvance:
		return fmt.Sprintf("raise %s to %d, %v", s.key, s.version, s.ttl)
	case opPass:
		return fmt.Sprintf("pass %v", s.ttl)
	case opList:
		return "list"
	case opChange:
		return fmt.Sprintf("change #%d to %v", s.who, s.mode)
	case opGiveUp:
		return fmt.Sprintf("give up #%d", s.who)
	case opComplete:
		if s.notKept {
			return fmt.Sprintf("complete #%d%s without the result, %v", s.who, s.flaw, s.ttl)
		}
	}
	return fmt.Sprintf("%s #%d%s, %v", s.op, s.who, s.flaw, s.ttl)
}

func (s Step) question() string {
	words := []string{"try"}
	if s.wait {
		words = []string{"wait for"}
	}
	if s.once {
		return fmt.Sprintf("%s the execution of %s, %v", words[0], s.claims[0].Key, s.ttl)
	}
	for _, c := range s.claims {
		word := c.Mode.String() + " " + c.Key
		if c.Mode == driver.ModePermit {
			word = fmt.Sprintf("permit %s of %d", c.Key, c.Permits)
		}
		words = append(words, word)
	}
	return fmt.Sprintf("%s, %v", strings.Join(words, " "), s.ttl)
}

// likely has the keys of a program, the first more often than the others, so that they are
// contended.
var likely = []string{"a", "a", "a", "b", "b", "c"}

// ops has the operations, those that make things happen more often than the others.
var ops = slices.Concat(
	slices.Repeat([]op{opAsk}, 10),
	slices.Repeat([]op{opRelease}, 6),
	slices.Repeat([]op{opExpire, opPass, opGiveUp, opRenew, opBorrow, opAgain, opShare}, 2),
	[]op{opChange, opPart, opComplete, opAdvance, opForget, opForce, opBreak, opList},
)

// flaws: most grants that owners present are right.
var flaws = append(slices.Repeat([]flaw{sound}, 9), wrongToken, noToken, wrongMode)

// Draw chooses a number from 0 to n-1. Smaller numbers make simpler programs.
type Draw func(n int) int

// Random makes one step of a program.
func Random(draw Draw) Step {
	s := Step{op: pick(draw, ops), ttl: time.Minute}
	switch s.op {
	case opAsk:
		s.wait, s.once = draw(3) < 2, draw(6) == 5
		s.ttl = randomTTL(draw)
		s.claims = randomClaims(draw)
		if s.once {
			s.claims = []driver.Claim{driver.Exclusive(pick(draw, likely))}
		}
	case opPass:
		s.ttl = time.Duration(1+draw(20)) * time.Second
	case opForget, opForce:
		s.key = pick(draw, likely)
	case opAdvance:
		s.key, s.version, s.ttl = pick(draw, likely), uint64(draw(6)), randomTTL(draw)
	case opList:
	default:
		s.who, s.count = draw(8), 1+draw(3)
		s.mode = pick(draw, []driver.Mode{driver.ModeShared, driver.ModeShared, driver.ModeExclusive, driver.ModePermit})
		s.flaw, s.ttl, s.notKept = pick(draw, flaws), randomTTL(draw), draw(4) == 3
	}
	return s
}

func pick[T any](draw Draw, from []T) T { return from[draw(len(from))] }

func randomTTL(draw Draw) time.Duration { return pick(draw, []time.Duration{3, 12, 60}) * time.Second }

// randomClaims mostly returns claims for one key, because sets of many keys are rarely
// admitted.
func randomClaims(draw Draw) []driver.Claim {
	n := pick(draw, []int{1, 1, 1, 2, 2, 3})
	var claims []driver.Claim
	for range n {
		c := randomClaim(draw, pick(draw, likely))
		if !slices.ContainsFunc(claims, func(o driver.Claim) bool { return o.Key == c.Key }) {
			claims = append(claims, c)
		}
	}
	slices.SortFunc(claims, func(a, b driver.Claim) int { return strings.Compare(a.Key, b.Key) })
	return claims
}

func randomClaim(draw Draw, key string) driver.Claim {
	switch driver.Mode(draw(3)) {
	case driver.ModeShared:
		return driver.Shared(key)
	case driver.ModePermit:
		return driver.Permit(key, 1+draw(3))
	default:
		return driver.Exclusive(key)
	}
}
