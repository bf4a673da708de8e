package sim

import "testing"

// Sum is what came of several histories.
type Sum struct {
	Operations, Faults int
	all                map[string]occurrence
}

// occurrence is something that has to happen in one of so many histories in which it could.
type occurrence struct{ times, could, patience int }

// Hardly a history is without what is usual. Of short faults of the network, one in four meets no packet.
const (
	usual  = 3
	seldom = 8
)

// Add adds a history.
func (s *Sum) Add(h *History) {
	if s.all == nil {
		s.all = map[string]occurrence{}
	}
	s.Operations += h.Operations
	s.Faults += len(h.Faults)
	happened := func(what string, could bool, times, patience int) {
		if could {
			was := s.all[what]
			s.all[what] = occurrence{was.times + times, was.could + 1, patience}
		}
	}
	happened("a lease that was extended", !h.plain, h.Extended, usual)
	happened("a lease that was taken by force", !h.plain, h.Forced, usual)
	happened("a lease that lingered", h.lingers, h.Lingered, usual)
	happened("an answer from the record", !h.plain, h.Replayed, usual)
	struck := map[string]int{}
	for _, x := range h.Faults {
		struck[x.Name]++
	}
	for _, k := range h.kinds() {
		if met := h.met[k.name]; met != nil {
			happened("a packet that meets the fault "+k.name, h.Only == nil, int(met.Load()), seldom)
		} else {
			happened("the fault "+k.name, h.Only == nil, struck[k.name], usual)
		}
	}
}

// Check fails the test if something never happened: the histories prove too little.
func (s *Sum) Check(t *testing.T) {
	for what, o := range s.all {
		if o.times == 0 && o.could >= o.patience {
			t.Errorf("%d histories without %s", o.could, what)
		}
	}
}
