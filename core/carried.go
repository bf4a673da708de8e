package core

import (
	"context"

	"github.com/keyturn/keyturn/core/internal/carried"
)

// Package core/experimental/carry gives these functions to its users.
func init() {
	carried.Leases = describeLeases
	carried.Accept = acceptLeases
}

// describeLeases implements carried.Leases.
func describeLeases(ctx context.Context) []carried.Lease {
	var all []carried.Lease
	for c := chainOf(ctx); c != nil; c = c.next {
		all = append(all, c.carried...)
		if c.lease == nil || c.lease.Err() != nil {
			continue
		}
		for _, p := range c.lease.parts() {
			if l, ok := p.describe(); ok {
				all = append(all, l)
			}
		}
	}
	return all
}

// describe describes l for another process. For a borrowed lease it repeats everything that its
// holder said: the claims that were borrowed here may be fewer than those that the next process
// needs.
func (l *Lease) describe() (said carried.Lease, ok bool) {
	if l.borrowed != nil {
		return *l.borrowed, true
	}
	g, ok := l.watch.Share()
	if !ok {
		return carried.Lease{}, false
	}
	return carried.Lease{Owner: g.Owner, Token: g.Token, HandedOn: l.grant.HandedOn, TTL: g.TTL, Claims: carried.DescribeClaims(g.Claims)}, true
}

// acceptLeases implements carried.Accept.
func acceptLeases(ctx context.Context, leases []carried.Lease) context.Context {
	return &chain{Context: ctx, carried: leases, next: chainOf(ctx)}
}
