package core

import "github.com/keyturn/keyturn/core/driver"

// WithShared claims keys together with other shared leases, and with no
// exclusive one: for those who read what others change. It goes for what is
// claimed by a plain key: in [Engine.Acquire], [Engine.TryAcquire], [Engine.Do]
// and rules, and for claims of a set that are exclusive; a claim of another mode
// keeps that. It excludes [WithPermits]. Default: exclusive.
//
// The store has to be able to ([driver.Description]). [Engine.Once] refuses it with an
// error that matches ErrInvalidOption, as what is carried out once is so in one
// place.
func WithShared() CallOption {
	return callOption{"WithShared", aboutMode, func(s *settings) error {
		s.mode, s.permits = driver.ModeShared, 0
		return nil
	}}
}

// WithPermits claims one of n permits of each key: at most n leases of the
// key are in force at a time. At least 1, otherwise an [*OptionError]. All who claim a key should agree on n;
// where they don't, each is let in as long as there are fewer than its own n.
// For the rest it is as [WithShared].
func WithPermits(n int) CallOption {
	return callOption{"WithPermits", aboutMode, func(s *settings) error {
		if n < 1 {
			return &OptionError{Option: "WithPermits", Value: n, Want: "1 or more"}
		}
		s.mode, s.permits = driver.ModePermit, n
		return nil
	}}
}

// WithHierarchy takes "/" in keys for a separator of levels and claims every
// level above a key shared, as [Under] does; the key itself is claimed in its own
// mode. Where several keys of one call have a level in common it is claimed
// once, and exclusively if it is one of the keys itself, in whatever other mode.
//
// The store has to be able to take shared claims and sets. Once refuses it, as
// in [WithShared]. keytmpl escapes "/" in values, so it is the template alone
// that says which levels there are: "group:{group_id}/member:{user_id}".
func WithHierarchy() CallOption {
	return callOption{"WithHierarchy", aboutHierarchy, func(s *settings) error {
		s.hierarchy = true
		return nil
	}}
}

// shape gives claims the mode and the levels that the call's options ask for.
func (s *settings) shape(claims []Claim) []Claim {
	if s.mode == driver.ModeExclusive && !s.hierarchy {
		return claims
	}
	shaped := make([]Claim, 0, len(claims))
	for _, c := range claims {
		if c.Mode == driver.ModeExclusive && c.Permits == 0 {
			c.Mode, c.Permits = s.mode, s.permits
		}
		if s.hierarchy {
			shaped = append(shaped, levels(c)...)
		} else {
			shaped = append(shaped, c)
		}
	}
	if s.hierarchy {
		return merge(shaped)
	}
	return shaped
}

// forOnce refuses what an execution can't share its key by.
func (s *settings) forOnce() error {
	const want = "no such option for Once, which has its key alone"
	switch {
	case s.mode == driver.ModeShared:
		return &OptionError{Option: "WithShared", Value: true, Want: want}
	case s.mode == driver.ModePermit:
		return &OptionError{Option: "WithPermits", Value: s.permits, Want: want}
	case s.hierarchy:
		return &OptionError{Option: "WithHierarchy", Value: true, Want: want}
	}
	return nil
}
