package core

import "github.com/keyturn/keyturn/core/driver"

// Acquisition is what was asked for.
type Acquisition struct {
	Claims []Claim // not to be changed
	Rule   string  // from WithRule
	Wait   bool    // false: refused at once when held
	Store  string  // what the engine's store says that it is ([driver.Description]); "" if it does not

	// Attempts is known to the hook AcquireEnd alone: how often the store was asked. 0 where
	// there was no need to, or no way: a nested lease, one that was handed on in this
	// process, a wait that ended in line. 1 where it answered at once, or not at all.
	// Where it said to wait, its answers: each time that it looked again and said so,
	// and the grant.
	Attempts int
}

// Execution is a call of [Engine.Once].
type Execution struct {
	Key   string
	Rule  string // from WithRule
	Store string // as in Acquisition
}

// Removal is what was done by force: [Engine.ForceRelease] took Key from Holders,
// or, where there are none, [Engine.Forget] dropped its record.
type Removal struct {
	Key     string
	Reason  string // as given
	Store   string // as in Acquisition
	Holders []driver.Holder
}

// Debt is a release that the store has not answered, which the engine therefore
// owes it, and sends again.
type Debt struct {
	Claims []Claim // not to be changed
	Owner  string
	Rule   string // from WithRule
	Store  string // as in Acquisition
	State  DebtState
}

// DebtState is what became of a [Debt].
type DebtState string

// The states of a debt. Owed is followed by one of those after it, except Dropped.
const (
	DebtOwed    DebtState = "owed"    // the engine goes on sending it
	DebtPaid    DebtState = "paid"    // the store has answered
	DebtExpired DebtState = "expired" // the lease ran out before the store answered
	DebtClosed  DebtState = "closed"  // the engine was closed before
	DebtDropped DebtState = "dropped" // not kept: there were 10 000 already, or the engine had closed
)
