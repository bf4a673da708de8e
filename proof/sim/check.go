package sim

import (
	"errors"
	"fmt"
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
	sections := history.Sections(h.Events, died)
	_, once := history.Once(h.Events, losses...)
	increments := history.Increments(h.Events)
	for key := range increments {
		if strings.HasSuffix(key, "/bare") && len(losses) > 0 {
			delete(increments, key)
		}
	}
	errs := []error{once, history.Check(sections, losses...), history.Deadlines(h.Events), history.Registers(increments, f.registers.Values())}
	for _, e := range h.Events {
		if e.What == history.Untyped {
			errs = append(errs, fmt.Errorf("an error that says nothing to a caller: %s", e.Key))
		}
	}
	if len(left) > 0 {
		errs = append(errs, fmt.Errorf("%d keys are left behind, such as %s", len(left), left[0]))
	}
	return errors.Join(errs...)
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
		l := history.Loss{From: x.From, Over: x.To, To: x.To + admitted}
		for _, other := range faults {
			if other.From < l.To && other.To+admitted > l.To && other.kind.lane != processes {
				l.To = other.To + admitted
			}
		}
		all = append(all, l)
	}
	return all
}
