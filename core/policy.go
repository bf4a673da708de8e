package core

import (
	"slices"
	"sync/atomic"

	"github.com/keyturn/keyturn/core/driver"
)

// Policy is a checked set of options, made once with [NewPolicy] and used for many calls, which
// costs them less than the options themselves. It is a [CallOption] that stands for its options,
// at its place in the list. The zero Policy changes nothing. It is safe for concurrent use.
type Policy struct {
	opts []CallOption
	last *atomic.Pointer[engineSettings] // nil: NewPolicy did not make it
}

// engineSettings are a policy combined with the defaults of the engine that last asked, as its store can
// keep them; most policies have only one engine. They save a call from applying the options again.
type engineSettings struct {
	backend  *backend // the engine's
	settings settings
	err      error
}

// settingsFor applies a policy that NewPolicy made to the engine's defaults.
func (p Policy) settingsFor(b *backend) (*settings, error) {
	last := p.last.Load()
	if last == nil || last.backend != b {
		last = &engineSettings{backend: b, settings: b.defaults}
		if last.err = p.apply(&last.settings); last.err == nil {
			last.err = last.settings.fit(b.about)
		}
		p.last.Store(last)
	}
	return &last.settings, last.err
}

// NewPolicy checks opts and bundles them. The error joins an [*OptionError] for each option that is
// wrong, also if a later one overrides it.
func NewPolicy(opts ...CallOption) (Policy, error) {
	p := Policy{opts: slices.Clone(opts), last: new(atomic.Pointer[engineSettings])}
	var scratch settings
	return p, p.apply(&scratch)
}

// settings returns the settings that the policy changes. It ignores errors, which NewPolicy
// reports.
func (p Policy) settings() settings {
	var s settings
	_ = p.apply(&s)
	return s
}

// modeless implements author.Modeless.
func (p Policy) modeless() (without Policy, only bool) {
	exclusive := modeOption(func(s *settings) error {
		s.mode, s.permits, s.hierarchy = driver.ModeExclusive, 0, false
		return nil
	})
	without, _ = NewPolicy(p, exclusive)
	return without, p.onlyModes()
}

// onlyModes reports whether the policy says nothing but how keys are claimed.
func (p Policy) onlyModes() bool {
	for _, o := range p.opts {
		switch o := o.(type) {
		case modeOption:
		case Policy:
			if !o.onlyModes() {
				return false
			}
		default:
			return false
		}
	}
	return true
}

func (p Policy) apply(s *settings) error { return s.apply(p.opts) }
