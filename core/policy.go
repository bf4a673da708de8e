package core

import (
	"slices"
	"sync/atomic"
)

// Policy is a checked set of options, made once with [NewPolicy] and used for many calls, which
// costs them less than the options themselves. It is a [CallOption]; options beside it override
// it ([Option]). The zero Policy changes nothing. It is safe for concurrent use.
type Policy struct {
	opts    []CallOption
	settled *atomic.Pointer[settled] // nil: made otherwise than by NewPolicy
}

// settled is what a policy comes to with the defaults of the engine that last
// asked, which is most policies' only one. It saves a call the applying of its
// options.
type settled struct {
	engine   *Engine
	settings settings
	err      error
}

// settle is apply on top of e's defaults, for a policy that NewPolicy made.
func (p Policy) settle(e *Engine) (*settings, error) {
	last := p.settled.Load()
	if last == nil || last.engine != e {
		last = &settled{engine: e, settings: e.defaults}
		if last.err = p.apply(&last.settings); last.err == nil {
			last.err = last.settings.fit(e.about.TTLs)
		}
		p.settled.Store(last)
	}
	return &last.settings, last.err
}

// NewPolicy checks opts and bundles them. A policy among them is a level below the others, which
// override it. The error joins an [*OptionError] for each option that is wrong.
func NewPolicy(opts ...CallOption) (Policy, error) {
	p := Policy{opts: slices.Clone(opts), settled: new(atomic.Pointer[settled])}
	var scratch settings
	return p, p.apply(&scratch)
}

// settings are those that the policy says something about, its errors being
// NewPolicy's to report.
func (p Policy) settings() settings {
	var s settings
	_ = p.apply(&s)
	return s
}

func (p Policy) apply(s *settings) error { return s.apply([]CallOption{p}) }
