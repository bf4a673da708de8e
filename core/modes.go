package core

import "github.com/keyturn/keyturn/core/driver"

// WithShared claims keys together with other shared leases, and with no exclusive one. It is for
// readers of what others change. It applies to plain keys ([Engine.Acquire], [Engine.TryAcquire],
// [Engine.Do], and rules of middlewares) and to the exclusive claims of a set. A claim of another
// mode keeps its mode; to mix modes in a set, use [Shared] claims. A key that is held in one mode is
// held for the others. Phases of readers and others alternate, so neither starves the other. Every
// lease has a term of its own, so a dead reader costs a writer its TTL at most. By default claims are
// exclusive. It replaces [WithPermits].
//
// The store must support it; otherwise the call's error matches [errors.ErrUnsupported]. With
// [Engine.Once] it is ErrInvalidOption, because an execution needs its key alone.
func WithShared() CallOption {
	return modeOption(func(s *settings) error {
		s.mode, s.permits = driver.ModeShared, 0
		return nil
	})
}

// WithPermits claims one of n permits of each key: at most n leases on a key are in force at a
// time. All callers of a key should agree on n. If they do not, each is admitted while fewer than
// its own n are in force. Its scope and its errors are those of [WithShared], which it replaces.
//
// n must be 1 or more, otherwise the option is an [*OptionError].
func WithPermits(n int) CallOption {
	return modeOption(func(s *settings) error {
		s.mode, s.permits = driver.ModePermit, n
		return driver.CheckOption(n >= 1, "WithPermits", n, "1 or more")
	})
}

// WithHierarchy treats "/" in keys as a separator of levels. It claims each level above a key
// shared, as [Under] does, and the key itself in its own mode. If several keys of one call share
// a level, the level is claimed once; a level that is itself one of the keys is claimed
// exclusively. A key has at most 8 levels, and none may be empty; otherwise the error matches
// ErrInvalidClaim. Off by default.
//
// The store must support shared claims and sets; otherwise the call's error matches
// [errors.ErrUnsupported]. With [Engine.Once] it is ErrInvalidOption. In templates, keytmpl
// escapes "/" in values, so the levels come from the template alone:
// "group:{group_id}/member:{user_id}".
func WithHierarchy() CallOption {
	return modeOption(func(s *settings) error {
		s.hierarchy = true
		return nil
	})
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

// forOnce refuses options with which an execution would share its key.
func (s *settings) forOnce() error {
	const want = "no such option for Once, which has its key alone"
	switch {
	case s.mode == driver.ModeShared:
		return &OptionError{Option: "WithShared", Value: true, Want: want}
	case s.mode == driver.ModePermit:
		return &OptionError{Option: "WithPermits", Value: s.permits, Want: want}
	case s.hierarchy:
		return &OptionError{Option: "WithHierarchy", Value: true, Want: want}
	case s.shadow == shadowed && s.executor != nil:
		return s.noShadow()
	case s.minHold > 0:
		return &OptionError{Option: "WithMinHold", Value: s.minHold, Want: "no such option for Once, whose record keeps it from running again"}
	}
	return nil
}
