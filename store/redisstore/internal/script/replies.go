package script

import (
	"fmt"
	"strconv"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/internal/onredis"
)

// Outcome is the kind of the answer to an [Acquire].
type Outcome int

const (
	Granted Outcome = iota // the claims are the owner's
	Done                   // there is a record
	Held                   // another owner has a claim
	Own                    // the owner has a claim already, in another mode
)

// Acquired is the answer to an [Acquire]. The comments name the outcomes that use a field; it
// is zero for the others.
type Acquired struct {
	Outcome   Outcome
	Token     uint64         // Granted
	Contended bool           // Granted: somebody waits for the only claim
	HandOffs  uint64         // Granted: how many tokens are reserved for them
	Record    *driver.Record // Done

	Claim int         // Held, Own: index of the claim
	Mode  driver.Mode // Own: the mode in which the owner has it

	// The fields below are for Held.
	Holder   onredis.Value
	Room     time.Duration // until there may be room
	First    time.Duration // until the first of the holders may be gone; below 0: the lease has no end
	NextTerm time.Duration // claim time of the waiter directly ahead; below 0: there is none
	Ahead    int           // how many waiters are ahead in line
	Now      int64         // the server's time in ms
}

// Acquired reads the answer about a number of claims.
func (c *Call) Acquired(claims int) (Acquired, error) {
	if c.Err != nil {
		return Acquired{}, c.Err
	}
	if token, ok := c.Value.(int64); ok { // to a plain call
		return Acquired{Token: uint64(token), HandOffs: c.reserved}, nil
	}
	reply := fields(c.Value)
	kind := ""
	if len(reply) > 1 {
		kind, _ = reply[0].(string)
	}
	switch {
	case kind == "granted" && len(reply) == 4:
		token, err := strconv.ParseUint(text(reply[1]), 10, 64)
		if err != nil {
			return Acquired{}, fmt.Errorf("%w: token %.30q", ErrCorrupt, text(reply[1]))
		}
		return Acquired{Token: token, Contended: number(reply[2]) > 0, HandOffs: uint64(number(reply[3]))}, nil
	case kind == "done":
		rec, err := decodeRecord(text(reply[1]))
		return Acquired{Outcome: Done, Record: rec}, err
	case kind == "held" && len(reply) == 8 && number(reply[1]) < int64(claims):
		return Acquired{
			Outcome: Held, Claim: int(number(reply[1])), Holder: onredis.ParseValue(text(reply[2])), Room: millis(reply[3]),
			First: millis(reply[4]), NextTerm: millis(reply[5]), Ahead: int(number(reply[6])), Now: number(reply[7]),
		}, nil
	case kind == "own" && len(reply) == 3 && number(reply[1]) < int64(claims):
		return Acquired{Outcome: Own, Claim: int(number(reply[1])), Mode: modeOf(text(reply[2]))}, nil
	}
	return Acquired{}, fmt.Errorf("%w: reply %.100v", ErrCorrupt, reply)
}

// Verdict says whether the lease was its owner's when the call reached the server.
type Verdict struct {
	Lost          bool
	Claim         int    // Lost: index of the claim that was not the owner's
	Forced        bool   // Lost: a ForceRelease ended the lease
	Reason        string // Forced: why
	ResultNotKept bool   // the record was stored without its result
}

// Verdict reads the answer about a number of claims.
func (c *Call) Verdict(claims int) (Verdict, error) {
	if c.Err != nil {
		return Verdict{}, c.Err
	}
	switch answer := c.Value.(type) {
	case int64:
		return Verdict{ResultNotKept: answer == 2}, nil
	case []any:
		if len(answer) == 0 {
			break
		}
		i, ok := answer[0].(int64)
		if !ok || i < 0 || int(i) >= claims {
			break
		}
		v := Verdict{Lost: true, Claim: int(i), Forced: len(answer) > 1}
		if v.Forced {
			v.Reason = text(answer[1])
		}
		return v, nil
	}
	return Verdict{}, fmt.Errorf("%w: reply %.100v", ErrCorrupt, c.Value)
}

// Version reads the answer to AdvanceVersion: the greatest version so far.
func (c *Call) Version() (uint64, error) {
	if c.Err != nil {
		return 0, c.Err
	}
	newest, err := strconv.ParseUint(text(c.Value), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: version %.40q", ErrCorrupt, text(c.Value))
	}
	return newest, nil
}

// Count reads the answer to Forget: how many things it dropped.
func (c *Call) Count() int64 { return number(c.Value) }

func fields(value any) []any {
	a, _ := value.([]any)
	return a
}

func text(field any) string {
	s, _ := field.(string)
	return s
}

func number(field any) int64 {
	n, _ := field.(int64)
	return n
}

func millis(field any) time.Duration { return time.Duration(number(field)) * time.Millisecond }
