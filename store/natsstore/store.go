package natsstore

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/casstore"
	"github.com/keyturn/keyturn/internal/keystate"
	"github.com/keyturn/keyturn/internal/lifetime"
)

// Store implements [driver.Store] with every optional part. Make one with [New]. It is safe for
// concurrent use.
type Store struct {
	ops    casstore.Store
	nc     *nats.Conn
	owned  bool // the connection ends with the store
	cfg    config
	rules  keystate.Rules
	bucket bucket
	inbox  *inbox

	life   context.Context // ends when Close begins
	end    context.CancelFunc
	cancel context.CancelFunc // of what is still under way when Close gives up
	calls  lifetime.Lifetime
}

var _ driver.Store = (*Store)(nil)

// New makes a store that uses nc, which stays the caller's: Close leaves it open. It does no I/O. nc
// should reconnect for ever (nats.MaxReconnects(-1)): the store fails for good when nc gives up. And it should
// notice a dead connection sooner than leases end (nats.PingInterval, by default two minutes).
//
// The error joins a [*driver.OptionError] for each option that is wrong.
func New(nc *nats.Conn, opts ...Option) (*Store, error) {
	cfg, err := configure(nc, opts)
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	s := &Store{nc: nc, cfg: cfg, rules: keystate.Rules{Term: cfg.waiter, Place: cfg.waiter}}
	s.bucket = bucket{nc: nc, js: js, cfg: &s.cfg}
	s.life, s.end = context.WithCancel(context.Background())
	hard, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	s.ops = casstore.Store{Backend: s.backend(), Calls: &s.calls, Life: s.life, Hard: hard, Left: cfg.waiter}
	if s.inbox, err = listen(s); err != nil {
		s.end()
		s.cancel()
		return nil, err
	}
	return s, nil
}

// Describe implements [driver.Store].
func (s *Store) Describe() driver.Description {
	return driver.Description{
		Name:   "nats",
		Shared: true, Permits: true, Sets: true, MinHold: true,
		Ledger: true, Inspector: true,
		Identity: s.identity, OnWanted: s.inbox.wanted.On, OnImpaired: s.inbox.hearing.watch, Examine: s.examine,
		// A shorter lease could end between two messages of a busy server.
		TTLs: driver.TTLs{Least: 100 * time.Millisecond},
	}
}

// identity implements [driver.Description].Identity: another leader, or a bucket that was made anew.
func (s *Store) identity(ctx context.Context) (string, error) {
	return casstore.Call(ctx, &s.ops, "identity", "", func(ctx context.Context) (string, error) {
		m, err := s.bucket.look(ctx)
		return m.server, err
	})
}

// Close implements [driver.Store]. It waits for calls and goroutines under way, five seconds at most; the
// error says if that was not enough. A second Close waits for the first and returns the same error.
func (s *Store) Close() error {
	return s.calls.Close(func() error {
		s.end()
		err := s.calls.Drain("natsstore", nil)
		s.cancel()
		s.disconnect()
		return err
	})
}

// disconnect waits a moment at most. While the client dials a server that hangs, which takes up to two seconds, it
// answers nobody.
func (s *Store) disconnect() {
	ctx, done := context.WithTimeout(context.Background(), 100*time.Millisecond)
	go func() {
		defer done()
		_ = s.inbox.sub.Unsubscribe()
		if s.owned {
			s.nc.Close()
		}
	}()
	<-ctx.Done()
}

// backend is the store as package casstore sees it.
func (s *Store) backend() casstore.Backend {
	return casstore.Backend{
		Check: check, Acquire: s.acquire, Explain: s.explain, Show: s.show, Failure: s.failure,
		Transact: func(ctx context.Context, a casstore.Aim, decide func(*keystate.State) error) (unsure bool, err error) {
			return s.transact(ctx, a, func(t *tx) error { return decide(&t.State) })
		},
	}
}

// mostClaims is how many entries the servers write in one batch.
const mostClaims = 1000

// check refuses, before any I/O, what the bucket could not hold.
func check(owner string, claims []driver.Claim, ttl time.Duration) error {
	if len(claims) > mostClaims {
		return &driver.ClaimError{Reason: "has more than 1000 claims, the most that NATS writes at once"}
	}
	return driver.CheckLease(owner, claims, ttl)
}

// explain finds out whether owner has lost a lease by force.
func (s *Store) explain(ctx context.Context, owner string, loss *driver.LeaseLostError) error {
	e, err := s.bucket.slot(ctx, loss.Key)
	if err != nil {
		return err
	}
	for _, f := range e.Forced {
		if f.Owner == owner {
			keystate.Explain(loss, f.Token, f.Reason)
		}
	}
	return nil
}
