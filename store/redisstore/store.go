package redisstore

import (
	"context"
	"errors"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/lifetime"
	"github.com/keyturn/keyturn/store/redisstore/internal/inbox"
	"github.com/keyturn/keyturn/store/redisstore/internal/script"
	"github.com/keyturn/keyturn/store/redisstore/internal/send"
)

// Store implements [driver.Store] with every optional part. Make one with [New]. It is safe for
// concurrent use.
type Store struct {
	client redis.UniversalClient
	cfg    config
	keys   script.Names
	inbox  *inbox.Inbox

	sender    *send.Sender
	questions atomic.Uint64 // number of the last question that a waiter asked
	copies    atomic.Int32  // leases that dropCopies looks after
	who       who
	pollers   inbox.Pollers
	signsLate atomic.Int64 // by how much the last sign of life of a waiter was late, as a time.Duration

	ctx    context.Context // ends when Close begins, and ends all waits
	cancel context.CancelFunc

	calls lifetime.Lifetime // and the goroutines that they leave behind
}

var _ driver.Store = (*Store)(nil)

// Describe implements [driver.Store]. The name is "redis", also for Valkey. Partition names the
// address of the master that has the key's slot, on a Cluster that has answered before.
// Identity is the run ID of the one server, or of the master behind Sentinel. The store is
// impaired while messages do not arrive; [Store.Check] says more. It tells that a lease is wanted
// (OnWanted), except on a Ring.
func (s *Store) Describe() driver.Description {
	d := driver.Description{
		Name:   "redis",
		Shared: true, Permits: true, Sets: true, MinHold: true,
		Ledger: true, Inspector: true,
		Partition:  s.sender.Master,
		Identity:   s.identity,
		OnImpaired: s.inbox.Watch,
		Examine:    s.examine,
	}
	if s.keys.Topology() != script.Ring { // messages do not get from one of its servers to another
		d.OnWanted = s.inbox.OnWanted
	}
	return d
}

// tidyTimeout bounds one attempt to undo a request that nobody waits for.
const tidyTimeout = 5 * time.Second

// New makes a store over client. The client stays the caller's: Close does not close it. Add the
// client's hooks before New: those that come later may miss requests. New
// does no I/O of its own that it waits for, so it works while Redis is down. The client should
// have a ReadTimeout, as go-redis sets it by default. Without one, a connection that hangs
// keeps a goroutine until the operating system gives it up. Every request passes the hooks that
// client has by now, on a Cluster those of its nodes (OnNewNode); hooks that are added later, or to the
// client of a Cluster itself, miss some. A hook that blocks keeps the caller, whatever its context says, and
// one that panics may end the program: some requests are on goroutines of the store.
//
// The error joins every [*driver.OptionError].
func New(client redis.UniversalClient, opts ...Option) (*Store, error) {
	cfg := defaultConfig()
	errs := append(driver.Configure(&cfg, "New", opts), cfg.fits(client))
	if isNil(client) {
		errs = append(errs, &driver.OptionError{Option: "New", Value: nil, Want: "a client"})
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	s := &Store{
		client: client,
		cfg:    cfg,
		keys:   script.NewNames(cfg.prefix, script.TopologyOf(client)),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.inbox = inbox.New(inbox.Config{
		Client: client, Names: s.keys, Retry: cfg.longestSleep(), Log: cfg.log, Life: s.ctx, Go: s.calls.Go,
	})
	s.sender = send.New(send.Config{
		Client: client, Names: s.keys, ReplicaWait: cfg.replicaWait, Life: s.ctx, Go: s.calls.Go,
	})
	s.calls.Go(s.warn)
	return s, nil
}

// isNil also finds a nil pointer inside a non-nil interface, which the first request would
// otherwise run into.
func isNil(client redis.UniversalClient) bool {
	if client == nil {
		return true
	}
	v := reflect.ValueOf(client)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

// Close implements [driver.Store]. It waits for calls and goroutines under way, five seconds at
// most; the error says if that was not enough. What is left by then ends with the client's
// timeouts. A second Close waits for the first and returns the same error.
func (s *Store) Close() error {
	return s.calls.Close(func() error {
		s.cancel()
		s.calls.Go(s.inbox.Close)
		return s.calls.Drain("redisstore", s.closeClient)
	})
}

// closeClient closes the client of a store that was opened by its URL.
func (s *Store) closeClient() {
	if s.cfg.ownsClient {
		_ = s.client.Close() // the only error is that it is closed
	}
}
