package core

import (
	"slices"
	"sync/atomic"
)

// Policy is a checked set of options, made once with [NewPolicy] and used for many calls, which
// costs them less than the options themselves. It is a [CallOption]; options beside it override
// it ([Option]). The zero Policy changes nothing. It is safe for concurrent use.
type Policy struct {
	opts []CallOption
	last *atomic.Pointer[engineSettings] // nil: NewPolicy did not make it
}

// engineSettings are a policy combined with the defaults of the engine that last asked; most
// policies have only one engine. They save a call from applying the options again.
type engineSettings struct {
	engine   *Engine
	settings settings
	err      error
}

// settingsFor applies a policy that NewPolicy made to e's defaults.
func (p Policy) settingsFor(e *Engine) (*settings, error) {
	last := p.last.Load()
	if last == nil || last.engine != e {
		last = &engineSettings{engine: e, settings: e.defaults}
		if last.err = p.apply(&last.settings); last.err == nil {
			last.err = last.settings.fit(e.about)
		}
		p.last.Store(last)
	}
	return &last.settings, last.err
}

// NewPolicy checks opts and bundles them. A policy among them is a level below the others, which
// override it. The error joins an [*OptionError] for each option that is wrong.
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

func (p Policy) apply(s *settings) error { return s.apply([]CallOption{p}) }
