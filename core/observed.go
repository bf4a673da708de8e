package core

import (
	"slices"

	"github.com/keyturn/keyturn/core/observe"
)

// observed is a lease as hooks see it, with methods that its users do not need.
type observed struct{ *Lease }

// Claims implements observe.Lease.
func (o observed) Claims() []Claim { return o.engine.showClaims(o.Lease.Claims()) }

// Rule implements observe.Lease.
func (o observed) Rule() string { return o.terms.rule }

// Store implements observe.Lease.
func (o observed) Store() string { return o.engine.backend().about.Name }

// Depth implements observe.Lease.
func (o observed) Depth() int { return int(o.depth) }

// HandedOff implements observe.Lease.
func (o observed) HandedOff() bool {
	l := o.obtained()
	return l != nil && l.grant.HandedOn > 0
}

// Lingered implements observe.Lease.
func (o observed) Lingered() bool {
	l := o.obtained()
	return l != nil && l.grant.Lingered
}

// obtained returns the lease that this process has got by the acquisition; nil if it only counts on others,
// which were handed on once, however many are nested in them.
func (o observed) obtained() *Lease {
	l := o.base()
	if l.borrowed != nil || o.nest != nil && !slices.Contains(o.nest.owned, l) {
		return nil
	}
	return l
}

// Shadow implements observe.Lease.
func (o observed) Shadow() bool { return o.terms.shadow }

func (o observed) Early() bool { return o.releasedEarly() }

// seen returns l as hooks see it; nil stays nil.
func seen(l *Lease) observe.Lease {
	if l == nil {
		return nil
	}
	return observed{l}
}
