package trial

import (
	"fmt"
	"time"
)

// Sum is what came of several histories. The zero value is that of none.
type Sum struct {
	Histories                   int
	Wrong                       int // of these
	Little                      int // of these, in which too little happened, and nothing wrong
	Lasted                      time.Duration
	Operations, Unknown, Grants int
	Faults                      int
	Longest, Late               time.Duration
}

// Add adds a history.
func (s *Sum) Add(r *Report) {
	s.Histories++
	switch {
	case r.Wrong != nil:
		s.Wrong++
	case r.Little != nil:
		s.Little++
	}
	s.Lasted += r.Lasts
	s.Operations += r.Operations
	s.Unknown += r.Unknown
	s.Grants += r.Grants
	for _, n := range r.Struck {
		s.Faults += n
	}
	s.Longest, s.Late = max(s.Longest, r.Longest), max(s.Late, r.Late)
}

func (s *Sum) String() string {
	return fmt.Sprintf("%d histories, %v: %d operations, %d unknown; %d grants; %d faults; longest time without a grant %.2f s, %.2f s despite service; %d histories are wrong, and %d prove too little\n",
		s.Histories, s.Lasted, s.Operations, s.Unknown, s.Grants, s.Faults, s.Longest.Seconds(), s.Late.Seconds(), s.Wrong, s.Little)
}
