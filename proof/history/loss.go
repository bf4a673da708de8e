package history

import (
	"cmp"
	"slices"
)

// Loss is a time in which the store may have lost leases, as after a restart without data. What
// the guarantees admit after the loss is part of it: the time until each holder must have noticed.
type Loss struct {
	From, To int64
	// Over is when the store loses nothing any more: what is asked for after it stays. 0: To.
	Over int64
	Hits func(key string) bool // nil: all keys
	// ForcesOnly: the store forgets nothing but that leases were taken by force. Redis that is asked to
	// wait for replicas with every grant does not wait with those (redisstore.WithReplicas).
	ForcesOnly bool
	// Late: a request that was under way may have been decided before the loss and written after it, as on
	// NATS. Then its token is from before, too.
	Late bool
}

func (l Loss) over() int64 { return cmp.Or(l.Over, l.To) }

// hits reports whether a section that lasts until end may have been lost.
func (l Loss) hits(s Section, end int64) bool { return !l.ForcesOnly && l.meets(s, end) }

// meets reports whether the loss struck during a section that lasts until end.
func (l Loss) meets(s Section, end int64) bool {
	if s.Begun >= l.over() || s.Given >= l.To || end <= l.From {
		return false
	}
	if l.Hits == nil {
		return true
	}
	for _, c := range s.Claims {
		if l.Hits(c.Key) {
			return true
		}
	}
	return false
}

// withBeginnings notes when the leases of sections were asked for. A lease that is handed on keeps its
// owner, and the store knows nothing of it.
func withBeginnings(sections []Section) []Section {
	first := map[string]int64{} // by owner
	for _, s := range sections {
		if at, ok := first[s.Owner]; !ok || s.Asked < at {
			first[s.Owner] = s.Asked
		}
	}
	all := slices.Clone(sections)
	for i, s := range all {
		all[i].Begun = s.Asked
		if s.Owner != "" {
			all[i].Begun = first[s.Owner]
		}
	}
	return all
}

// forgive leaves out the parts of sections that nobody can count on because of a loss. A holder
// that has not noticed the loss when it is over counts again: it should have.
func forgive(sections []Section, losses []Loss) []Section {
	var all []Section
	for _, s := range sections {
		for _, l := range losses {
			if !l.hits(s, s.End) {
				continue
			}
			if s.Given < l.From {
				before := s
				before.End = l.From
				all = append(all, before)
			}
			s.Given = l.To
		}
		if s.Given < s.End {
			all = append(all, s)
		}
	}
	inOrder(all)
	return all
}

// gone returns from when on the lease of s may have been gone because of a loss, or Never. It may
// have been gone before its holder got the answer.
func gone(s Section, losses []Loss) int64 {
	for _, l := range losses {
		if l.hits(s, s.End) {
			return max(l.From, s.Asked)
		}
	}
	return Never
}

// late reports whether the token of s may be from before a loss, and its lease from after it.
func late(s Section, losses []Loss) bool {
	return slices.ContainsFunc(losses, func(l Loss) bool {
		return l.Late && s.Asked < l.over() && s.Given > l.From && l.hits(s, s.End)
	})
}

// streaks has a lease that is handed on during a loss begin with its streak. The store may have
// forgotten the lease and granted the key to another process. For 10 ms the holder does not ask the
// store before it hands on, so the new holder may have the smaller token (docs/guarantees.md).
func streaks(sections []Section, losses []Loss) []Section {
	all := slices.Clone(sections)
	for i, s := range all {
		if gone(s, losses) < Never {
			all[i].Asked = s.Begun
		}
	}
	return all
}
