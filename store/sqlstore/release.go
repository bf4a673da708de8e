package sqlstore

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/keystate"
)

// Acquire implements [driver.Store]. A claim on a key that the owner holds in another mode gets
// a [*driver.DeadlockError].
func (s *Store) Acquire(ctx context.Context, req driver.Request) (driver.Grant, error) {
	return s.ops.Acquire(ctx, req)
}

// Release implements [driver.Store].
func (s *Store) Release(ctx context.Context, g driver.Grant) error {
	if !isPlain(g.Claims) || g.Token == 0 || g.MinHold != 0 { // more than one statement can do
		return s.ops.Release(ctx, g, nil)
	}
	if s.batcher.Enter() {
		defer s.batcher.Leave()
		return s.ops.Release(ctx, g, func(ctx context.Context) (done, unsure bool, err error) { return s.shortRelease(ctx, g) })
	}
	done, unsure, err := s.releaseBatched(ctx, g)
	if done || err != nil {
		return err
	}
	return s.ops.Release(ctx, g, func(context.Context) (done, before bool, err error) { return false, unsure, nil })
}

// Downgrade implements [driver.Store].
func (s *Store) Downgrade(ctx context.Context, g driver.Grant) error { return s.ops.Downgrade(ctx, g) }

// ForceRelease implements [driver.Inspector]. Owners can learn the reason for an hour.
func (s *Store) ForceRelease(ctx context.Context, key, reason string, only ...driver.Holder) ([]driver.Holder, error) {
	return s.ops.ForceRelease(ctx, key, reason, only...)
}

// explain finds out whether owner has lost a lease by force.
func (s *Store) explain(ctx context.Context, owner string, loss *driver.LeaseLostError) error {
	query := fmt.Sprintf("SELECT token, reason FROM %s WHERE lock_key = ? AND owner = ? AND until > %s", s.q.forcedTable, s.d.clock)
	return s.query(ctx, query, []any{[]byte(loss.Key), owner}, nil, func(rows *sql.Rows) error {
		var token uint64
		var reason []byte
		err := rows.Scan(&token, &reason)
		if err == nil {
			keystate.Explain(loss, token, string(reason))
		}
		return err
	})
}
