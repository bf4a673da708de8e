package sim

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/keyturn/keyturn/proof/history"
)

// check returns what is wrong with a history.
func (f *fleet) check(h *History, left []string) error {
	died := map[int]int64{}
	for _, p := range f.all {
		if p.died > 0 {
			died[p.nr] = p.died
		}
	}
	losses := f.losses(h.Faults)
	risky := slices.ContainsFunc(losses, func(l history.Loss) bool { return !l.ForcesOnly })
	sections := history.Sections(h.Events, died)
	effects, once := history.Once(h.Events, losses...)
	h.Effects = effects
	increments := history.Increments(h.Events)
	for key := range increments {
		if strings.HasSuffix(key, "/bare") && risky {
			delete(increments, key)
		}
	}
	errs := []error{once, history.Check(sections, losses...), history.Deadlines(h.Events), history.Registers(increments, f.registers.Values())}
	if !f.forgets {
		errs = append(errs, history.Unfounded(sections, losses...))
	}
	for _, e := range h.Events {
		if e.What == history.Untyped {
			errs = append(errs, fmt.Errorf("an error that says nothing to a caller: %s", e.Key))
		}
	}
	if len(left) > 0 {
		errs = append(errs, fmt.Errorf("%d keys are left behind, such as %s", len(left), left[0]))
	}
	if late := f.late(h, sections); late > tooLate {
		errs = append(errs, fmt.Errorf("nothing was granted for %v, although the server served", late))
	}
	return errors.Join(errs...)
}

// tooLate is how long there may be no grant although nothing is wrong.
const tooLate = 5 * time.Second

// late returns the longest time without a grant and without a fault of the server or the network.
func (f *fleet) late(h *History, sections []history.Section) time.Duration {
	var outages []history.Span
	for _, x := range h.Faults {
		if x.kind.lane != processes {
			outages = append(outages, x.Span)
		}
	}
	_, latest := history.Longest(sections, history.Span{To: int64(f.Lasts)}, outages)
	return time.Duration(latest.Late)
}

// losses are when leases may have been lost, and holders may not know yet: until their next renewal, or
// until their engine has asked who the server is, or until the network lets it.
func (f *fleet) losses(faults []*Fault) []history.Loss {
	admitted := int64(f.TTL/3 + 1500*time.Millisecond)
	var all []history.Loss
	for _, x := range faults {
		if !x.kind.loses {
			continue
		}
		l := history.Loss{From: x.From, Over: x.To, To: x.To + admitted, ForcesOnly: f.confirmed && x.Name == failover, Late: f.lateGrants}
		for _, other := range faults {
			if other.From < l.To && other.To+admitted > l.To && other.kind.lane != processes {
				l.To = other.To + admitted
			}
		}
		all = append(all, l)
	}
	return all
}
