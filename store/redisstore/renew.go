package redisstore

import (
	"context"
	"slices"

	"github.com/keyturn/keyturn/core"
)

// renewBatch is how many renewals go in one round trip. It keeps a batch well
// below a millisecond or two of the server's time, which others wait for.
const renewBatch = 500

// renewal is one grant on its way.
type renewal struct {
	*request
	key   string
	grant core.Grant
	to    *error // where the answer goes
}

// Renew implements [core.Store].
func (s *Store) Renew(ctx context.Context, grants []core.Grant) []error {
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
		key, err := check(g.Owner, g.Claims, g.TTL)
		if err != nil {
			errs[i] = err
			continue
		}
		r := newRequest(renewScript, []string{s.keys.prefix + key}, g.Owner, g.TTL.Milliseconds())
		renewals = append(renewals, renewal{request: r, key: key, grant: g, to: &errs[i]})
	}
	for batch := range slices.Chunk(renewals, renewBatch) {
		s.renew(ctx, batch)
	}
	return errs
}

func (s *Store) renew(ctx context.Context, batch []renewal) {
	reqs := make([]*request, len(batch))
	for i, r := range batch {
		reqs[i] = r.request
	}
	answered := s.await(ctx, nil, reqs...)
	for _, r := range batch {
		if answered {
			*r.to = r.verdict("renew", r.key, r.grant)
		} else {
			*r.to = &core.UnavailableError{Op: "renew", Err: silence(ctx)}
		}
	}
}
