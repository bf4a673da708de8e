package redisstore

import (
	"context"
	"errors"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/redisstore/internal/send"
)

// renewBatch is how many claims are renewed in one round trip. It keeps a batch
// to a few milliseconds of the server's time, which others wait for.
const renewBatch = 500

// renewal is one grant on its way, or those of its claims that fit in a script.
type renewal struct {
	*send.Request
	claims []driver.Claim
	grant  driver.Grant
	to     *error // where the answer goes
}

// Renew implements [driver.Store].
func (s *Store) Renew(ctx context.Context, grants []driver.Grant) []error {
	errs := make([]error, len(grants))
	if err := s.enter(); err != nil {
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	defer s.leave()
	renewals := make([]renewal, 0, len(grants))
	for i, g := range grants {
		if err := check(g.Owner, g.Claims, g.TTL); err != nil {
			errs[i] = err
			continue
		}
		for _, claims := range s.keys.Groups(g.Claims) {
			r := &send.Request{Replicas: s.cfg.replicas}
			s.keys.Renew(&r.Call, g, claims)
			renewals = append(renewals, renewal{Request: r, claims: claims, grant: g, to: &errs[i]})
		}
	}
	for len(renewals) > 0 {
		n, claims := 0, 0
		for n < len(renewals) && (n == 0 || claims+len(renewals[n].claims) <= renewBatch) {
			claims += len(renewals[n].claims)
			n++
		}
		s.renew(ctx, renewals[:n])
		renewals = renewals[n:]
	}
	return errs
}

func (s *Store) renew(ctx context.Context, batch []renewal) {
	reqs := make([]*send.Request, len(batch))
	for i, r := range batch {
		reqs[i] = r.Request
	}
	answered := s.sender.Await(ctx, nil, reqs)
	for _, r := range batch {
		var err error = &driver.UnavailableError{Op: "renew", Key: r.claims[0].Key, Err: silence(ctx)}
		if answered {
			err = verdict(r.Request, "renew", r.claims, r.grant)
		}
		*r.to = worse(*r.to, err)
	}
}

// worse is what a set comes to of which the parts came to a and b: one claim
// lost is the set lost, whatever the others say.
func worse(a, b error) error {
	if a == nil || !errors.Is(a, driver.ErrLeaseLost) && errors.Is(b, driver.ErrLeaseLost) {
		return b
	}
	return a
}
