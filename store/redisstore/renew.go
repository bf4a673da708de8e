package redisstore

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/redisstore/internal/send"
)

const (
	// renewBatch is how many claims are renewed in one round trip. A batch then takes the server a
	// few milliseconds, during which others wait.
	renewBatch = 500
	// renewTrips is how many of these round trips are under way at a time. In a busy process each
	// takes much longer than the server needs, and all leases that are due have to be renewed in time.
	renewTrips = 8
)

// renewal is the renewal of one grant, or of those of its claims that fit in one script call.
type renewal struct {
	*send.Request
	claims []driver.Claim
	grant  driver.Grant
	to     *error // the lease's answer
	err    error  // its own answer
}

// Renew implements [driver.Store].
func (s *Store) Renew(ctx context.Context, grants []driver.Grant) []error {
	if err := s.calls.Enter(); err != nil {
		return slices.Repeat([]error{err}, len(grants))
	}
	defer s.calls.Leave()
	errs := make([]error, len(grants))
	renewals := make([]renewal, 0, len(grants))
	for i, g := range grants {
		if err := driver.CheckLease(g.Owner, g.Claims, g.TTL); err != nil {
			errs[i] = err
			continue
		}
		for _, claims := range s.keys.Groups(g.Claims) {
			r := &send.Request{Replicas: s.cfg.replicas}
			s.keys.Renew(&r.Call, g, claims)
			renewals = append(renewals, renewal{Request: r, claims: claims, grant: g, to: &errs[i]})
		}
	}
	var trips sync.WaitGroup
	free := make(chan struct{}, renewTrips)
	for batch := range batches(renewals) {
		free <- struct{}{}
		trips.Go(func() {
			s.send(ctx, "renew", batch)
			<-free
		})
	}
	trips.Wait()
	settle(renewals)
	return errs
}

// batches yields the renewals of each round trip.
func batches(renewals []renewal) iter.Seq[[]renewal] {
	return func(yield func([]renewal) bool) {
		for len(renewals) > 0 {
			n, claims := 0, 0
			for n < len(renewals) && (n == 0 || claims+len(renewals[n].claims) <= renewBatch) {
				claims += len(renewals[n].claims)
				n++
			}
			if !yield(renewals[:n]) {
				return
			}
			renewals = renewals[n:]
		}
	}
}

// Downgrade implements [driver.Store]. A set whose keys are in several slots of a Cluster is
// changed slot by slot; one that is lost may have been changed in part.
func (s *Store) Downgrade(ctx context.Context, g driver.Grant) error {
	if err := driver.CheckLease(g.Owner, g.Claims, g.TTL); err != nil {
		return err
	}
	if err := s.calls.Enter(); err != nil {
		return err
	}
	defer s.calls.Leave()
	var batch []renewal
	var err error
	for _, claims := range s.keys.Groups(g.Claims) {
		r := &send.Request{Replicas: s.cfg.replicas}
		s.keys.Downgrade(&r.Call, g, claims)
		batch = append(batch, renewal{Request: r, claims: claims, grant: g, to: &err})
	}
	s.send(ctx, "downgrade", batch)
	settle(batch)
	return err
}

// send sends the requests of a batch together, and notes what came of each.
func (s *Store) send(ctx context.Context, op string, batch []renewal) {
	reqs := make([]*send.Request, len(batch))
	for i, r := range batch {
		reqs[i] = r.Request
	}
	answered := s.sender.Await(ctx, nil, reqs)
	for i := range batch {
		r := &batch[i]
		r.err = &driver.UnavailableError{Op: op, Key: r.claims[0].Key, Err: silence(ctx)}
		if answered {
			r.err = verdict(r.Request, op, r.claims, r.grant)
		}
	}
}

// settle makes the answer about each lease of the answers about its parts, which may have been in several
// batches.
func settle(renewals []renewal) {
	for _, r := range renewals {
		*r.to = worse(*r.to, r.err)
	}
}

// worse returns the error of a set whose parts got a and b. If one claim is lost, the set is
// lost, whatever the other answers are.
func worse(a, b error) error {
	if a == nil || !errors.Is(a, driver.ErrLeaseLost) && errors.Is(b, driver.ErrLeaseLost) {
		return b
	}
	return a
}
