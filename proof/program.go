package proof

import (
	"fmt"
	"strings"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// Op is what a step of a program does.
type Op string

// The operations. Those after Ask are done by an owner that asked before: see [Step.Who].
const (
	Ask      Op = "ask"      // Acquire by a new owner, or Begin with Once
	Again    Op = "again"    // Acquire by an owner that holds what it asks for
	Change   Op = "change"   // the same, for another mode
	Renew    Op = "renew"    // renews Count leases at once
	Part     Op = "part"     // renews only the first claim of a set
	Release  Op = "release"  //
	GiveUp   Op = "give up"  // ends a wait
	Complete Op = "complete" // completes what was requested with Once
	Expire   Op = "expire"   // renews for a moment only, and lets that pass
	Forget   Op = "forget"   // drops the record on Key
	Force    Op = "force"    // ForceRelease of Key
	Pass     Op = "pass"     // lets TTL pass
	List     Op = "list"     // lists all keys, page by page
)

// Step is one step of a program. Fields that its operation does not need are ignored. A step
// that no owner can take is skipped. So a program makes sense without any of its steps, and
// shrinking can remove them.
type Step struct {
	Op   Op
	Wait bool
	Once bool // Ask: Begin, for the first key exclusively
	// Who says which of the owners that can do this operation does it, counted from 0, the last
	// one first.
	Who    int
	Count  int
	Claims []driver.Claim // in key order
	Mode   driver.Mode    // Change
	Key    string
	Flaw   Flaw
	TTL    time.Duration
}

// GoString is how a program that failed is shown.
func (s Step) GoString() string {
	switch s.Op {
	case Ask:
		var words []string
		if s.Wait {
			words = append(words, "wait for")
		} else {
			words = append(words, "try")
		}
		if s.Once {
			return fmt.Sprintf("%s the execution of %s, %v", words[0], s.Claims[0].Key, s.TTL)
		}
		for _, c := range s.Claims {
			word := c.Mode.String() + " " + c.Key
			if c.Mode == driver.ModePermit {
				word = fmt.Sprintf("permit %s of %d", c.Key, c.Permits)
			}
			words = append(words, word)
		}
		return fmt.Sprintf("%s, %v", strings.Join(words, " "), s.TTL)
	case Force, Forget:
		return fmt.Sprintf("%s %s", s.Op, s.Key)
	case Pass:
		return fmt.Sprintf("pass %v", s.TTL)
	case List:
		return "list"
	case Change:
		return fmt.Sprintf("change #%d to %v", s.Who, s.Mode)
	case GiveUp:
		return fmt.Sprintf("give up #%d", s.Who)
	}
	flaw := [...]string{"", " with another token", " without a token", " in another mode"}[s.Flaw]
	return fmt.Sprintf("%s #%d%s, %v", s.Op, s.Who, flaw, s.TTL)
}
