package drivertest

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/drivertest/model"
)

// Harness tells the suite how to reach a backend. Only New is required. A test that needs a
// missing function is skipped; a missing value has its default.
type Harness struct {
	// New opens a store on the backend. Every call stands for a process of its own, and all of
	// them see the same leases. The suite closes what New opened.
	New func(testing.TB) driver.Store

	// TTL is the TTL of leases that a test lets run out. It should be short, and long enough
	// for this backend to tell "still held" from "over". 0: 500 ms. The suite asks for the
	// nearest TTL that the store can keep ([driver.TTLs]).
	TTL time.Duration
	// Early is how much sooner than promised a lease or record may end: the resolution of the
	// backend's clock. 0: the step of the store's TTLs, at least 5 ms.
	Early time.Duration
	// Late is how much later than due an answer, a wake-up or an end may come,
	// on a busy machine. 0: 1 s. A test fails when it is three times as late: the machine may have stopped it.
	Late time.Duration

	// Restart restarts the backend without its data.
	Restart func(testing.TB)
	// Pause makes the backend fall silent, with its connections left open. Resume ends that.
	Pause, Resume func(testing.TB)
	// Cut takes the network from one store, and Heal gives it back. A store that stays cut off
	// stands for a process that was killed.
	Cut, Heal func(testing.TB, driver.Store)

	// OtherBackend, if set, returns a harness with another backend, for a test that restarts or silences
	// it. Without it, these tests run one by one, before the others. The others run in parallel, unless
	// there is an Around: most of them wait for leases to end.
	OtherBackend func(testing.TB) Harness

	// OneByOne: random programs run one after the other, because the backend shares the test's processors.
	OneByOne bool

	// Elsewhere, if set, names another store's test that runs the checks of Acquire for Begin (L3) and for a
	// single permit (M1), too, because the two stores share that code. They are skipped here, and the others
	// whose names Also reports.
	Elsewhere string
	Also      func(check string) bool

	// Around, if set, runs each test. testing/synctest.Test fits; with it, a store that does no
	// I/O is tested without real waiting.
	Around func(t *testing.T, test func(*testing.T))

	// Settle returns when nothing more happens by itself, if time stands still while a test
	// runs: testing/synctest.Wait fits with Around. Random programs then compare times, too.
	Settle func()
	// Latitude is what the contract leaves to this backend, for the model that random programs
	// are compared with.
	Latitude model.Latitude

	takesTime bool        // there is no Around
	ttls      driver.TTLs // that the store can keep
	programs  uint64      // at least so many are run, however long they take; for controls, whose time is not real
}

// Run tests the store behind h against the contract in [driver.Store]. Of what is
// optional it tests what the store lists in its [driver.Description].
func Run(t *testing.T, h Harness) {
	st := h.New(t)
	parallel := h.Around == nil || h.OtherBackend != nil // what Around runs may be a bubble, where nothing waits
	h = h.withDefaults(st.Describe())
	if err := st.Close(); err != nil {
		t.Errorf("Close of an unused store: %v", err)
	}
	for _, c := range checks() {
		t.Run(c.name, func(t *testing.T) {
			why := c.skipped(h)
			if why == "" {
				why = c.beyond(st.Describe())
			}
			if why != "" {
				t.Skip(why)
			}
			h := h
			switch disrupts := c.needs == toRestart || c.needs == toSilence; {
			case !parallel:
			case !disrupts:
				t.Parallel() // begins when those that disrupt the backend have ended
			case h.OtherBackend != nil:
				t.Parallel()
				h = h.OtherBackend(t).withDefaults(st.Describe())
			}
			h.Around(t, func(t *testing.T) { c.run(newScene(t, h, c)) })
		})
	}
}

func (h Harness) withDefaults(d driver.Description) Harness {
	def := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	def(&h.TTL, 500*time.Millisecond)
	h.ttls, h.TTL = d.TTLs, d.TTLs.Nearest(h.TTL)
	def(&h.Early, max(d.TTLs.Step, 5*time.Millisecond))
	def(&h.Late, time.Second)
	if h.Around == nil {
		h.takesTime = true
		h.Around = func(t *testing.T, test func(*testing.T)) { test(t) }
	}
	return h
}

// check tests one sentence, or one aspect of it.
type check struct {
	name  string // the sentence's number, then what one sees when it holds
	run   func(*scene)
	needs need
	can   driver.Description // what the store must list
	begin bool               // it acquires by Begin
	// permit: it holds for a single permit, too, and is made again with one.
	permit bool
	// ordered: it needs waiters to be served, and shown, in order of arrival.
	ordered bool
	// unordered: it is for stores that promise no order; the others pass more.
	unordered bool
	// claim makes the claim on a single key; nil: driver.Exclusive.
	claim func(key string) driver.Claim
}

// need is what a check needs of the harness in addition to New.
type need int

const (
	nothing   need = iota
	toRestart      // Restart
	toCut          // Cut and Heal
	toSilence      // Pause and Resume, or Cut and Heal
)

// skipped says why the check cannot run with h, or "".
func (c check) skipped(h Harness) string {
	canCut := h.Cut != nil && h.Heal != nil
	canPause := h.Pause != nil && h.Resume != nil
	switch {
	case c.needs == toRestart && h.Restart == nil:
		return "not tested: this backend can't be made to lose its data (no Harness.Restart)"
	case c.needs == toCut && !canCut:
		return "not tested: one store can't be cut off from this backend (no Harness.Cut and Heal)"
	case c.needs == toSilence && !canCut && !canPause:
		return "not tested: this backend can't be made to fall silent (no Harness.Pause and Resume, or Cut and Heal)"
	case h.Elsewhere != "" && (original(c.name) != c.name || h.Also != nil && h.Also(c.name)):
		return "not tested here: " + h.Elsewhere + " does it, with the same code"
	}
	return ""
}

// beyond says why the check asks too much of a store that describes itself as d, or "".
func (c check) beyond(d driver.Description) string {
	for _, f := range []struct {
		wanted, listed bool
		name           string
	}{
		{c.can.Shared, d.Shared, "Shared"},
		{c.can.Permits, d.Permits, "Permits"},
		{c.can.Sets, d.Sets, "Sets"},
		{c.can.MinHold, d.MinHold, "MinHold"},
		{c.can.OnWanted != nil, d.OnWanted != nil, "OnWanted"},
		{c.can.Ledger, d.Ledger, "Ledger"},
		{c.can.Inspector, d.Inspector, "Inspector"},
	} {
		if f.wanted && !f.listed {
			return "not tested: this store does not list it (driver.Description." + f.name + ")"
		}
	}
	switch {
	case c.ordered && d.Unordered:
		return "not tested: this store promises no order (driver.Description.Unordered)"
	case c.unordered && !d.Unordered:
		return "not needed: this store promises an order"
	}
	return ""
}

// These begin the names of the checks of Acquire that Begin and a single permit have to pass.
const (
	byBegin  = "L3 Begin "
	byPermit = "M1 one permit: "
)

var (
	byKeystate = regexp.MustCompile(`^(M|N7|R6)`)
	byStore    = regexp.MustCompile(`^N7 a borrower's renewal (keeps the|ends no) lease`) // what is written then
)

// ByKeystate reports whether a check is about what internal/keystate decides: who enters, for how long, and what
// is borrowed. It serves as [Harness.Also], for backends that need not all be asked that.
func ByKeystate(check string) bool {
	return byKeystate.MatchString(check) && !byStore.MatchString(check)
}

// original is the name of the check that is made again under another.
func original(name string) string {
	return strings.TrimPrefix(strings.TrimPrefix(name, byBegin), byPermit)
}

// checks lists what Run runs. Some checks come twice, with a single permit. The checks of Acquire do so because L3
// says that all of them hold for Begin.
func checks() []check {
	all := slices.Concat(acquireChecks, renewChecks, borrowChecks, reservedChecks, releaseChecks, stayChecks, wantedChecks,
		closeChecks, sharedChecks, permitChecks, termChecks, downgradeChecks, setChecks, programChecks)
	for _, c := range slices.Concat(inspectChecks, forceChecks) {
		c.can.Inspector, c.begin = true, c.can.Ledger
		all = append(all, c)
	}
	for _, c := range slices.Concat(ledgerChecks, versionChecks) {
		c.can.Ledger, c.begin = true, true
		all = append(all, c)
	}
	for _, c := range slices.Concat(acquireChecks, renewChecks, releaseChecks) {
		if c.permit {
			c.name, c.can, c.claim = byPermit+c.name, permits, permit(1)
			all = append(all, c)
		}
	}
	for _, c := range acquireChecks {
		c.name, c.can.Ledger, c.begin = byBegin+c.name, true, true
		all = append(all, c)
	}
	return all
}
