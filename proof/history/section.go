package history

import (
	"cmp"
	"slices"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// Section is an acquisition in the history.
type Section struct {
	Process, Nr int
	Claims      []driver.Claim
	Asked       int64
	Begun       int64 // when the lease was asked for; earlier than Asked if it was handed on; set by Check
	Given       int64 // when the answer came; Never: there was none
	Owner       string
	Token       uint64
	// Until is the holder's own deadline, as far as it was written down. TTL is the longest
	// term that the holder asked for.
	Until int64
	TTL   time.Duration
	// Shared is from when the exclusive claims count as shared; Never: they do not.
	Shared int64
	// Taken is from when the lease may have been taken away by force. Told is when that was
	// certainly done to a lease that was there before. Never: it was not.
	Taken, Told int64
	// Noticed is when the holder was told that the lease is lost; Never: it was not.
	Noticed int64
	// End is until when, at least, the holder was entitled to act: by its own deadline, while
	// its process lived, before it was told of a loss, and before anybody began to take the lease
	// away.
	End int64
	// Returning and Answered are the beginning and the end of its release; Never: none.
	Returning, Answered int64
	Outcome             What
}

// Sections makes sections of a history. died says when a process was killed, at the earliest.
// Processes that are not in it ended by themselves.
func Sections(events []Event, died map[int]int64) []Section {
	type id struct{ process, nr int }
	byID := map[id]*Section{}
	for _, e := range events {
		if e.What == Asked {
			byID[id{e.Process, e.Nr}] = &Section{
				Process: e.Process, Nr: e.Nr, Claims: e.Claims, Asked: e.At,
				Given: Never, Shared: Never, Taken: Never, Told: Never, Noticed: Never, Returning: Never, Answered: Never,
			}
		} else if s := byID[id{e.Process, e.Nr}]; s != nil { // otherwise it is a forced release
			s.note(e)
		}
	}
	taken := forces(events, died)
	var all []Section
	for _, s := range byID {
		for _, f := range taken {
			f.apply(s)
		}
		end, ok := died[s.Process]
		if !ok {
			end = Never
		}
		s.End = min(s.Until, s.Returning, end, s.Noticed, s.Taken)
		all = append(all, *s)
	}
	inOrder(all)
	return all
}

// note takes the events of s in the order in which they happened in its process. So the last
// deadline counts, which may be earlier than one before.
func (s *Section) note(e Event) {
	switch e.What {
	case Given:
		s.Given, s.Owner, s.Token, s.Until, s.TTL = e.At, e.Owner, e.Token, e.Until, e.TTL
	case Holding, Extending:
		s.Until, s.TTL = e.Until, max(s.TTL, e.TTL)
	case Sharing:
		s.Shared = min(s.Shared, e.At)
	case Noticed:
		s.Noticed = e.At
	case Returning:
		s.Returning = e.At
	default:
		s.Answered, s.Outcome = e.At, e.What
	}
}

// inOrder sorts sections by their beginnings.
func inOrder(all []Section) {
	slices.SortFunc(all, func(a, b Section) int {
		return cmp.Or(cmp.Compare(a.Given, b.Given), cmp.Compare(a.Asked, b.Asked))
	})
}

// granted reports whether s was granted, and was the holder's at that moment as far as is
// known.
func (s Section) granted() bool { return s.Given < Never && s.Given < s.Taken }

// on returns the claim of s on key.
func (s Section) on(key string) (driver.Claim, bool) {
	i := slices.IndexFunc(s.Claims, func(c driver.Claim) bool { return c.Key == key })
	if i < 0 {
		return driver.Claim{}, false
	}
	return s.Claims[i], true
}

// split makes two sections of each one that was downgraded: one as it was before, and a shared
// one.
func split(sections []Section) []Section {
	var all []Section
	for _, s := range sections {
		if s.Shared >= s.End {
			all = append(all, s)
			continue
		}
		before, after := s, s
		before.End = s.Shared
		after.Given = max(s.Given, s.Shared)
		after.Claims = slices.Clone(s.Claims)
		for i := range after.Claims {
			if after.Claims[i].Mode == driver.ModeExclusive {
				after.Claims[i].Mode = driver.ModeShared
			}
		}
		all = append(all, before, after)
	}
	inOrder(all)
	return all
}
