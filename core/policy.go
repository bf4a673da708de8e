package core

import (
	"slices"
	"sync/atomic"
)

// Policy is a checked set of options under one name, made once and used for
// many calls: what a middleware's rule goes by. It is itself a [CallOption], and what is
// given beside it overrides it ([Option]). The zero Policy changes nothing.
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

// NewPolicy checks opts, all of them, and bundles them. A policy among them is a level
// below the others, which override it. The error joins every [*OptionError].
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
