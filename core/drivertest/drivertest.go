package drivertest

import (
	"slices"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// Harness tells the suite how to reach a backend. Only New is needed; what is
// left out is skipped, or has the default that stands with it.
type Harness struct {
	// New opens a store on the backend. Every call stands for a process of its
	// own; all of them see the same leases. The suite closes what it opened.
	New func(testing.TB) driver.Store

	// NoLedger says that the stores are no driver.Ledger.
	NoLedger bool
	// NoInspector says that the stores show nothing, though they may have the
	// methods of a driver.Inspector. It is not needed for those that have not.
	NoInspector bool

	// TTL is for leases that a test lets run out: short, and long enough for
	// this backend to tell "still held" from "over". 0: 500 ms.
	TTL time.Duration
	// Early is how much sooner than promised a lease or record may end: the step
	// of the backend's clock. 0: 5 ms.
	Early time.Duration
	// Late is how much later than due an answer, a wake-up or an end may come,
	// on a busy machine. 0: 1 s.
	Late time.Duration

	// Restart has the backend come back without its data.
	Restart func(testing.TB)
	// Pause has the backend fall silent, its connections left open; Resume ends
	// that.
	Pause, Resume func(testing.TB)
	// Cut takes the network from one store; Heal gives it back. A store that is
	// cut off for good stands for a process that was killed.
	Cut, Heal func(testing.TB, driver.Store)

	// Around runs each test, if set. testing/synctest.Test fits, and takes the
	// waiting out of the tests of a store that does no I/O.
	Around func(t *testing.T, test func(*testing.T))
}

// Run tests the store behind h against the contract in [driver.Store] and
// [driver.Ledger], with those modes that the store lists as a [driver.Capable], and
// in [driver.Inspector] where it is one.
func Run(t *testing.T, h Harness) {
	h = h.withDefaults()
	st := h.New(t)
	if err := st.Close(); err != nil {
		t.Errorf("Close of an unused store: %v", err)
	}
	for _, c := range checks() {
		t.Run(c.name, func(t *testing.T) {
			why := c.skipped(h)
			if why == "" {
				why = c.beyond(st)
			}
			if why != "" {
				t.Skip(why)
			}
			h.Around(t, func(t *testing.T) { c.run(newScene(t, h, c)) })
		})
	}
}

func (h Harness) withDefaults() Harness {
	def := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	def(&h.TTL, 500*time.Millisecond)
	def(&h.Early, 5*time.Millisecond)
	def(&h.Late, time.Second)
	if h.Around == nil {
		h.Around = func(t *testing.T, test func(*testing.T)) { test(t) }
	}
	return h
}

// check is the test of one sentence, or of one side of it.
type check struct {
	name   string // the sentence's number, then what is seen when it holds
	run    func(*scene)
	needs  need
	ledger bool // it is about a driver.Ledger
	begin  bool // acquire by Begin
	can    driver.Capabilities
	shows  bool // it is about a driver.Inspector
	// claim is what it asks for where it takes one key; nil: driver.Exclusive.
	claim func(key string) driver.Claim
}

// need is what a check asks of the harness beyond New.
type need int

const (
	nothing   need = iota
	toRestart      // Restart
	toCut          // Cut and Heal
	toSilence      // Pause and Resume, or Cut and Heal
)

// skipped says why the check can't be made, or "".
func (c check) skipped(h Harness) string {
	canCut := h.Cut != nil && h.Heal != nil
	canPause := h.Pause != nil && h.Resume != nil
	switch {
	case c.ledger && h.NoLedger:
		return "not tested: this store keeps no records (Harness.NoLedger)"
	case c.shows && h.NoInspector:
		return "not tested: this store shows nothing (Harness.NoInspector)"
	case c.needs == toRestart && h.Restart == nil:
		return "not tested: this backend can't be made to lose its data (no Harness.Restart)"
	case c.needs == toCut && !canCut:
		return "not tested: one store can't be cut off from this backend (no Harness.Cut and Heal)"
	case c.needs == toSilence && !canCut && !canPause:
		return "not tested: this backend can't be made to fall silent (no Harness.Pause and Resume, or Cut and Heal)"
	}
	return ""
}

// beyond says why the check asks too much of st, or "".
func (c check) beyond(st driver.Store) string {
	var can driver.Capabilities
	if s, ok := st.(driver.Capable); ok {
		can = s.Capabilities()
	}
	_, shows := st.(driver.Inspector)
	switch {
	case c.shows && !shows:
		return "not tested: this store shows nothing (it is no driver.Inspector)"
	case c.can.Shared && !can.Shared:
		return "not tested: this store lists no shared leases (driver.Capabilities)"
	case c.can.Permits && !can.Permits:
		return "not tested: this store lists no permits (driver.Capabilities)"
	case c.can.Sets && !can.Sets:
		return "not tested: this store lists no sets of claims (driver.Capabilities)"
	}
	return ""
}

// checks lists what Run runs. Those of Acquire come twice: a third sentence of
// the Ledger's says that all of them hold for Begin.
func checks() []check {
	var all []check
	all = append(all, acquireChecks...)
	all = append(all, renewChecks...)
	all = append(all, borrowChecks...)
	all = append(all, releaseChecks...)
	all = append(all, closeChecks...)
	all = append(all, sharedChecks...)
	all = append(all, permitChecks...)
	all = append(all, termChecks...)
	all = append(all, downgradeChecks...)
	all = append(all, setChecks...)
	for _, c := range slices.Concat(inspectChecks, forceChecks) {
		c.shows, c.begin = true, c.ledger
		all = append(all, c)
	}
	for _, c := range slices.Concat(ledgerChecks, versionChecks) {
		c.ledger, c.begin = true, true
		all = append(all, c)
	}
	for _, c := range acquireChecks {
		c.name, c.ledger, c.begin = "L3 Begin "+c.name, true, true
		all = append(all, c)
	}
	return all
}
