package trial

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/proof/history"
)

// material is what a history left.
type material struct {
	events  []history.Event
	died    map[int]int64
	struck  []Struck
	outages [][]history.Span // by part
	within  history.Span     // when faults struck
	final   map[string]uint64
	left    []string
	errs    []error
}

// Report is what came of a history.
type Report struct {
	Config
	history.Count
	history.Effects
	Struck     map[string]int
	Added      int // increments of registers that were answered
	LostFenced int // of these, lost in a register that compares tokens
	LostBare   int // of these, lost in one that does not
	Overlaps   int // for another system than keyturn: how often two held a key
	Modes      map[driver.Mode]int
	// Longest is the longest time without a grant on any key of a part. Served is the longest time
	// for which a part took no writes. Late is the longest time without a grant while the part took
	// writes and nothing was wrong with the network.
	Longest, Served, Late time.Duration
	// Meanwhile is what struck in the time that Late is about, or shortly before.
	Meanwhile string
	// Wrong is what is wrong with the history; nil: nothing.
	Wrong error
	// Little says that too little happened, or is known of what happened, to prove something, or that a
	// fault could not strike as it was meant to; nil: it is enough.
	Little error
	// Dir has the history, with a picture of what is wrong; "": nothing is.
	Dir string
}

// The least that a history must have seen of each, for each second.
const (
	leastGrants = 5
	leastFaults = 0.2
)

// tooLate is how long a part may grant nothing although it takes writes. A killed process blocks
// its keys for a TTL, which is no reason to grant nothing on the others.
const tooLate = 5 * time.Second

func (tr *trial) report(m material) *Report {
	r := &Report{Config: tr.Config, Struck: map[string]int{}, Modes: map[driver.Mode]int{}, Count: history.CountOf(m.events)}
	sections := history.Sections(m.events, m.died)
	for _, s := range sections {
		if s.Given < history.Never {
			r.Modes[s.Claims[0].Mode]++
		}
	}
	for _, f := range m.struck {
		if f.Fault != takeover {
			r.Struck[f.Fault]++
		}
	}
	r.Little = errors.Join(m.errs...)
	increments := history.Increments(m.events)
	fenced, bare := apart(increments)
	for key, all := range increments {
		for _, inc := range all {
			if inc.Return < history.Never {
				r.Added++
			}
		}
		if _, ok := fenced[key]; ok {
			r.LostFenced += history.Lost(all)
		} else {
			r.LostBare += history.Lost(all)
		}
	}
	tr.gaps(r, m, sections)
	if tr.System != keyturn {
		r.Overlaps = history.Overlaps(sections)
		r.Wrong = history.Registers(bare, m.final)
		return r
	}
	var losses []history.Loss
	if !tr.Strict {
		losses = tr.losses(m)
	}
	effects, err := history.Once(m.events, losses...)
	r.Effects = effects
	errs := []error{err, history.Check(sections, losses...), history.Deadlines(m.events), history.Registers(fenced, m.final), untyped(m.events)}
	if !tr.risky(m.struck) {
		errs = append(errs, history.Registers(bare, m.final))
	}
	if len(m.left) > 0 {
		errs = append(errs, fmt.Errorf("%d keys are left behind, such as %s", len(m.left), m.left[0]))
	}
	if r.Late > tooLate {
		errs = append(errs, fmt.Errorf("nothing was granted for %v, although the server served", r.Late))
	}
	r.Wrong, r.Little = errors.Join(errs...), errors.Join(r.Little, tr.enough(r))
	if r.Wrong != nil {
		r.Dir, err = tr.keep(picture(r.Wrong, sections, m), m.struck)
		r.Wrong = errors.Join(r.Wrong, err)
	}
	return r
}

// apart separates registers that compare tokens from those that do not.
func apart(all map[string][]history.Increment) (fenced, bare map[string][]history.Increment) {
	fenced, bare = map[string][]history.Increment{}, map[string][]history.Increment{}
	for key, incs := range all {
		if strings.HasSuffix(key, "/bare") {
			bare[key] = incs
		} else {
			fenced[key] = incs
		}
	}
	return fenced, bare
}

// risky reports whether faults struck against which a lease alone is not enough.
func (tr *trial) risky(struck []Struck) bool {
	return slices.ContainsFunc(struck, func(s Struck) bool { return s.Loses || s.Fault == "stop" })
}

// admitted is how long after a loss a holder may not know of it (docs/guarantees.md): until its
// next renewal, or until its engine has asked who the server is.
func (tr *trial) admitted() int64 { return int64(tr.ttl/3 + 1500*time.Millisecond) }

// losses are when leases may have been lost, and holders may not know yet. A holder that is stopped
// or cut off at that time learns of it when that is over.
func (tr *trial) losses(m material) []history.Loss {
	struck := slices.SortedFunc(slices.Values(m.struck), func(a, b Struck) int { return cmp.Compare(a.From, b.From) })
	var all []history.Loss
	for _, f := range struck {
		if !f.Loses && f.Fault != takeover {
			continue
		}
		loss := history.Loss{From: f.From, Over: f.To, To: f.To + tr.admitted(), ForcesOnly: !f.Loses}
		if f.Part >= 0 {
			loss.Hits = func(key string) bool { return tr.bed.part(key) == f.Part }
		}
		for _, other := range struck {
			if other.From < loss.To && other.To+tr.admitted() > loss.To && other.lane != processes || other.Fault == "stop" && other.From < loss.To && other.To > loss.From {
				loss.To = max(loss.To, other.To+tr.admitted())
			}
		}
		all = append(all, loss)
	}
	return all
}

// gaps finds out how long nothing was granted.
func (tr *trial) gaps(r *Report, m material, sections []history.Section) {
	var tangled []history.Span
	for _, f := range m.struck {
		if f.lane == network {
			tangled = append(tangled, f.Span)
		}
	}
	for part, outages := range m.outages {
		var of []history.Section
		for _, s := range sections {
			if len(s.Claims) == 1 && tr.bed.part(s.Claims[0].Key) == part {
				of = append(of, s)
			}
		}
		for _, o := range outages {
			r.Served = max(r.Served, time.Duration(o.To-o.From))
		}
		longest, latest := history.Longest(of, m.within, slices.Concat(outages, tangled))
		r.Longest = max(r.Longest, time.Duration(longest.To-longest.From))
		if late := time.Duration(latest.Late); late > r.Late {
			r.Late, r.Meanwhile = late, meanwhile(m, latest)
		}
	}
}

// meanwhile names the faults of a time without a grant, with their times since the history began.
func meanwhile(m material, g history.Gap) string {
	at := func(t int64) string { return fmt.Sprintf("%.2f", time.Duration(t-m.within.From).Seconds()) }
	var all []string
	for _, f := range m.struck {
		if f.From < g.To && f.To > g.From-int64(time.Second) {
			all = append(all, fmt.Sprintf("%s %s to %s", f.Fault, at(f.From), at(f.To)))
		}
	}
	return fmt.Sprintf("at %s to %s: %s", at(g.To-g.Late), at(g.To), cmp.Or(strings.Join(all, ", "), "no fault"))
}

// enough checks that as much happened as a history needs to prove something.
func (tr *trial) enough(r *Report) error {
	seconds := tr.Lasts.Seconds()
	errs := []error{r.Count.Enough(int(leastGrants * seconds))}
	struck := 0
	for _, n := range r.Struck {
		struck += n
	}
	if len(tr.Faults) > 0 && float64(struck) < leastFaults*seconds {
		errs = append(errs, fmt.Errorf("%d faults struck in %.0f s", struck, seconds))
	}
	return errors.Join(errs...)
}

func untyped(events []history.Event) error {
	seen := map[string]bool{}
	var errs []error
	for _, e := range events {
		if e.What == history.Untyped && !seen[e.Key] {
			seen[e.Key] = true
			errs = append(errs, fmt.Errorf("an error that says nothing to a caller: %s", e.Key))
		}
	}
	return errors.Join(errs...)
}

// noticeable is a time without a grant for which a report names the faults.
const noticeable = time.Second

// mostLines is how much is shown of what is wrong.
const mostLines = 8

func (r *Report) String() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("%s on %s, %v, seed %d", r.System, r.Topology, r.Lasts, r.Seed)
	var struck []string
	for _, name := range slices.Sorted(maps.Keys(r.Struck)) {
		struck = append(struck, fmt.Sprint(r.Struck[name], " ", name))
	}
	line("  faults       %s", cmp.Or(strings.Join(struck, ", "), "none"))
	line("  operations   %d, %d of them with an unknown outcome", r.Operations, r.Unknown)
	line("  grants       %d with %d tokens: %d exclusive, %d shared, %d permits; %d handed on (%d had lingered), %d extended, %d downgraded, %d taken by force, %d lost",
		r.Grants, r.Tokens, r.Modes[driver.ModeExclusive], r.Modes[driver.ModeShared], r.Modes[driver.ModePermit],
		r.HandedOn, r.Lingered, r.Extended, r.Downgraded, r.Forced, r.Lost)
	line("  registers    %d increments; refused %d; lost %d with fencing, %d without", r.Added, r.Stale, r.LostFenced, r.LostBare)
	line("  once         %d ids, %d effects, %d answers from the record", r.IDs, r.Done, r.Replayed)
	line("  longest time without a grant %.2f s; without service %.2f s; without a grant despite service %.2f s",
		r.Longest.Seconds(), r.Served.Seconds(), r.Late.Seconds())
	if r.Late > noticeable {
		line("               %s", r.Meanwhile)
	}
	if r.System != keyturn {
		line("  two holders  %d times", r.Overlaps)
	}
	if r.Wrong != nil {
		lines := strings.Split(r.Wrong.Error(), "\n")
		for _, l := range lines[:min(len(lines), mostLines)] {
			line("  WRONG        %s", l)
		}
		if n := len(lines) - mostLines; n > 0 {
			line("               and %d more lines", n)
		}
		if r.Dir != "" {
			line("  the history  %s", r.Dir)
		}
	}
	if r.Little != nil {
		line("  TOO LITTLE   %s", strings.ReplaceAll(r.Little.Error(), "\n", "; "))
	}
	return b.String()
}
