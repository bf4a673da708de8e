package core

import "github.com/keyturn/keyturn/core/observe"

// observed is a lease as hooks see it, with methods that its users do not need.
type observed struct{ *Lease }

// Claims implements observe.Lease.
func (o observed) Claims() []Claim { return o.engine.showClaims(o.Lease.Claims()) }

// Rule implements observe.Lease.
func (o observed) Rule() string { return o.terms.rule }

// Store implements observe.Lease.
func (o observed) Store() string { return o.engine.backend().about.Name }

// Depth implements observe.Lease.
func (o observed) Depth() int { return o.level() }

// HandedOff implements observe.Lease.
func (o observed) HandedOff() bool { return o.grant.HandedOn > 0 }

// Lingered implements observe.Lease.
func (o observed) Lingered() bool { return o.grant.Lingered }

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
