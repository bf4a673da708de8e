package observe

import (
	"time"

	"github.com/keyturn/keyturn/core/coverage"
	"github.com/keyturn/keyturn/core/driver"
)

// Acquisition is what somebody asked an engine for.
type Acquisition struct {
	Claims []driver.Claim // not to be changed
	Rule   string         // from core.WithRule; "" for none
	Store  string         // the name of the engine's store; "" if it has none
	Wait   bool           // false: refused at once if the key is held
	Shadow bool           // nobody waits or is refused: the call runs anyway (core.WithShadow)

	// Attempts is how often the store was asked. Only AcquireEnd gets it: it is 0 in the other
	// calls. It is also 0 if the store was not needed (a nested lease, or one that was handed
	// on in this process) or not reached (the wait in line ended first). It is 1 if the store
	// answered at once, or did not answer. After a wait at the store it counts the store's
	// answers: each "wait", and the grant.
	Attempts int
}

// Execution is a call of Engine.Once.
type Execution struct {
	Key   string
	Rule  string // from core.WithRule; "" for none
	Store string // as in Acquisition
	// Shadow: the function runs anyway (core.WithShadow). A duplicate would have been replayed.
	Shadow bool
}

// Outcome is what came of an [Execution].
type Outcome struct {
	// Duplicate: the function did not run, because the execution is on record.
	Duplicate bool
	// ResultNotKept: the execution is on record without its result.
	ResultNotKept bool
	// Trace is the trace of the execution on record, as its hook Trace wrote it. "" if it is
	// not known, and if the function ran.
	Trace string
}

// Removal is something taken by force. Engine.ForceRelease took Key from Holders; or, if
// there are none, Engine.Forget dropped the key's record.
type Removal struct {
	Key     string
	Reason  string // as given
	Store   string // as in Acquisition
	Holders []driver.Holder
}

// Debt is a release that the store has not answered. The engine owes it to the store, and
// sends it again.
type Debt struct {
	Claims []driver.Claim // not to be changed
	Owner  string
	Rule   string // from core.WithRule; "" for none
	Store  string // as in Acquisition
	State  DebtState
}

// DebtState is what became of a [Debt].
type DebtState string

// The states of a debt. DebtOwed is followed by exactly one of DebtPaid, DebtExpired and
// DebtClosed. DebtDropped comes alone.
const (
	DebtOwed    DebtState = "owed"    // the engine goes on sending it
	DebtPaid    DebtState = "paid"    // the store has answered
	DebtExpired DebtState = "expired" // the lease ran out before the store answered
	DebtClosed  DebtState = "closed"  // the engine was closed before
	DebtDropped DebtState = "dropped" // not kept: there were 10 000 already, or the engine had closed
)

// Linger is a lease that nobody works under, and that the engine keeps for the next caller of this
// process (core.WithLinger).
type Linger struct {
	Claims []driver.Claim // not to be changed
	Owner  string
	Rule   string // of the last holder, from core.WithRule; "" for none
	Store  string // as in Acquisition
	State  LingerState
	Stayed time.Duration // how long it lingered; 0 with LingerBegun
}

// LingerState is what became of a [Linger].
type LingerState string

// The states of a lease that lingers. For each LingerBegun there is exactly one of the others.
// Another goroutine may tell of it first, if the lease is taken at once.
const (
	LingerBegun  LingerState = "begun"
	LingerTaken  LingerState = "taken"  // the next caller has it: observe.Lease.HandedOff
	LingerWanted LingerState = "wanted" // given back, because somebody asked for the key
	LingerOver   LingerState = "over"   // given back, because its time was over or it did not suit the next caller
	LingerMissed LingerState = "missed" // given back, because a message that it is wanted could have been missed
	LingerClosed LingerState = "closed" // given back by Engine.Close
	LingerLost   LingerState = "lost"   // it was lost, or taken away by force
)

// Declaration says that there is a rule.
type Declaration struct {
	Rule   string         // its name, as core.WithRule gives it
	Store  string         // as in Acquisition
	Claims []driver.Claim // such as the rule's calls ask for; their keys mean nothing
	Info   coverage.Rule
}

// Skip is work that a rule dropped as if it were done.
type Skip struct {
	Rule   string // from core.WithRule
	Store  string // as in Acquisition
	Reason coverage.SkipReason
}
