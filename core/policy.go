package core

import (
	"errors"
	"slices"
)

// Policy is a checked set of options under one name, made once and used for
// many calls: what a middleware's rule goes by. It is itself a [CallOption].
// The zero Policy changes nothing.
type Policy struct {
	opts []CallOption
}

// NewPolicy checks opts, all of them, and bundles them. The error joins every
// [*OptionError].
func NewPolicy(opts ...CallOption) (Policy, error) {
	p := Policy{opts: slices.Clone(opts)}
	var scratch settings
	return p, p.apply(&scratch)
}

func (p Policy) apply(s *settings) error {
	var errs []error
	for _, o := range p.opts {
		if o == nil {
			errs = append(errs, &OptionError{Option: "CallOption", Value: nil, Want: "not nil"})
			continue
		}
		if err := o.apply(s); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
