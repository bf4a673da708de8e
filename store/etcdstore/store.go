package etcdstore

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/casstore"
	"github.com/keyturn/keyturn/internal/keystate"
	"github.com/keyturn/keyturn/internal/lifetime"
)

// Store implements [driver.Store] with every optional part. Make one with [New]. It is safe for concurrent use.
type Store struct {
	client *clientv3.Client
	cfg    config
	least  time.Duration // the shortest lease that the server grants

	answered atomic.Int64 // the same as soon as the server has said it

	ops        casstore.Store
	leases     *pool
	shared     *sharedLeases
	keepAlives *keepAlives
	views      *casstore.Recent[*view] // locks as this store has last written or read them
	inbox      casstore.Inbox
	ahead      atomic.Bool  // it was logged that tokens are ahead of this clock
	stream     atomic.Int64 // the number of the stream that carries watches

	life  context.Context // ends when Close begins, and ends all waits
	end   context.CancelFunc
	calls lifetime.Lifetime // and the goroutines that they leave behind
}

var _ driver.Store = (*Store)(nil)

// New makes a store over client, which stays the caller's: Close does not close it. New asks etcd
// for a lease, which tells the shortest TTL that the server keeps. If it does not answer within 2 s,
// that is no error, and New counts on the default settings: 2 s.
//
// The error joins every [*driver.OptionError], before any I/O. If etcd refuses, as for a wrong
// password, it matches driver.ErrUnavailable.
func New(ctx context.Context, client *clientv3.Client, opts ...Option) (*Store, error) {
	cfg, err := configure(opts)
	if client == nil {
		err = errors.Join(err, &driver.OptionError{Option: "New", Value: nil, Want: "a client"})
	}
	if err != nil {
		return nil, err
	}
	s := &Store{client: client, cfg: cfg, views: casstore.NewRecent[*view](mostViews)}
	s.life, s.end = context.WithCancel(context.Background())
	s.ops = casstore.Store{Backend: s.backend(), Calls: &s.calls, Life: s.life, Hard: s.life, Forces: forcedAtOnce}
	s.leases, s.shared, s.keepAlives = newPool(client), newSharedLeases(client), newKeepAlives(s)
	s.inbox.Follow = s.follower()
	later := func(err error) { cfg.log.Error("etcdstore: etcd answers now, and refuses this client", "error", err) }
	if err := s.calls.Open(ctx, s.life, s.askLeast, later); err != nil {
		s.end()
		return nil, err
	}
	// Later answers make no difference: the engine asks once for the TTLs.
	s.least = cmp.Or(time.Duration(s.answered.Load()), usualLeast)
	s.cfg.waiterLease = max(s.cfg.waiterLease, s.least)
	return s, nil
}

// askLeast asks for the shortest lease that the server grants.
func (s *Store) askLeast(ctx context.Context) error {
	l, err := s.leases.grant(ctx, time.Second)
	switch {
	case errors.Is(err, rpctypes.ErrNoSpace):
		return nil // an operator has to look at such a server, too, and programs that start wait for space
	case err != nil:
		return s.failure("open", "", err)
	}
	s.answered.Store(int64(l.ttl))
	s.leases.put(l)
	return nil
}

// usualLeast is the shortest lease of a server with the default settings. One that keeps only longer ones
// makes a lease longer than asked for.
const usualLeast = 2 * time.Second

// Describe implements [driver.Store].
func (s *Store) Describe() driver.Description {
	return driver.Description{
		Name:   "etcd",
		Shared: true, Permits: true, Sets: true, MinHold: true,
		Ledger: true, Inspector: true,
		OnWanted: s.inbox.On, Examine: s.examine,
		TTLs: driver.TTLs{Least: s.least, Step: time.Second},
	}
}

// Close implements [driver.Store]. It waits for calls and goroutines under way, five seconds at
// most; the error says if that was not enough. A second Close waits for the first and returns
// the same error.
func (s *Store) Close() error {
	return s.calls.Close(func() error {
		s.end()
		return s.calls.Drain("etcdstore", func() {
			if s.cfg.ownsClient {
				_ = s.client.Close() // its errors are those of connections that end
			}
		})
	})
}

// check refuses, before any I/O, requests that the store cannot keep.
func (s *Store) check(owner string, claims []driver.Claim, ttl time.Duration) error {
	if err := driver.CheckLease(owner, claims, ttl); err != nil {
		return err
	}
	if ttl%time.Second != 0 {
		return &driver.OptionError{Option: "TTL", Value: ttl, Want: "whole seconds"}
	}
	return nil
}

// backend is the store as package casstore sees it.
func (s *Store) backend() casstore.Backend {
	return casstore.Backend{
		Check: s.check, Acquire: s.acquire, Explain: s.explain, Show: s.inspect, Failure: s.failure, Run: direct,
		Transact: func(ctx context.Context, a casstore.Aim, decide func(*keystate.State) error) (unsure bool, err error) {
			t := s.tx(ctx, a)
			t.recall()
			return t.run(func(t *tx) error { return decide(&t.State) })
		},
	}
}

// direct is the Run of [casstore.Backend]: calls of etcd's client end with their context.
func direct(ctx context.Context, _ []string, work func(context.Context) error, late func()) (err error, answered bool) {
	if err = work(ctx); err == nil || ctx.Err() == nil || casstore.IsAnswer(err) {
		return err, true
	}
	if late != nil {
		late()
	}
	return context.Cause(ctx), false
}

// compareClocks logs once that tokens are far ahead of this process's clock.
func (s *Store) compareClocks(last uint64, now time.Time) {
	ahead := time.UnixMicro(int64(last)).Sub(now)
	if ahead > time.Minute && s.ahead.CompareAndSwap(false, true) {
		s.cfg.log.Warn("etcdstore: this machine's clock is behind that of another one, or was set back; tokens follow the clock", "by", ahead)
	}
}
