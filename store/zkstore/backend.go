package zkstore

import (
	"context"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/casstore"
	"github.com/keyturn/keyturn/internal/keystate"
)

// backend is the store as package casstore sees it.
type backend struct{ s *Store }

// Check implements [casstore.Backend].
func (b backend) Check(owner string, claims []driver.Claim, ttl time.Duration) error {
	return b.s.check(owner, claims, ttl)
}

// Transact implements [casstore.Backend].
func (b backend) Transact(ctx context.Context, a casstore.Aim, decide func(*keystate.State) error) (unsure bool, err error) {
	return b.s.decide(ctx, a, decide)
}

// Explain implements [casstore.Backend].
func (b backend) Explain(ctx context.Context, owner string, loss *driver.LeaseLostError) error {
	_, err := retry(ctx, b.s, func(p *peer) (struct{}, error) { return struct{}{}, b.s.explain(p, owner, loss) })
	return err
}

// Failure implements [casstore.Backend].
func (b backend) Failure(op, key string, err error) error { return failure(op, key, err) }
