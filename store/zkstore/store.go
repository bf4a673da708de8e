package zkstore

import (
	"context"
	"errors"
	"path"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/casstore"
	"github.com/keyturn/keyturn/internal/lifetime"
)

// Store implements [driver.Store] with every optional part. Make one with [New]. It is safe for
// concurrent use.
type Store struct {
	ops      casstore.Store
	cfg      config
	link     *link
	watchers *watchers
	inbox    casstore.Inbox

	life   context.Context // ends when Close begins, and ends all waits
	end    context.CancelFunc
	hard   context.Context // ends requests that are still under way when Close gives up
	cancel context.CancelFunc

	calls lifetime.Lifetime // and the goroutines that they leave behind

	swept     atomic.Bool // or about to be: see sweepOnce
	onlyLooks atomic.Bool // this user may read locks, and not ask the leader for its time
}

var _ driver.Store = (*Store)(nil)

// New makes a store on the ensemble of servers, each a host or host:port. It opens a session of its
// own, waits for it for 2 s at most, and makes the store's root if that is missing. If no server
// answers by then, that is no error: the session is opened later.
//
// The error joins every [*driver.OptionError], before any I/O. If the root cannot be made, it
// matches driver.ErrUnavailable. With a user who may only read, the store shows locks,
// and the servers refuse everything else.
func New(ctx context.Context, servers []string, opts ...Option) (*Store, error) {
	cfg, err := configure(servers, opts)
	if err != nil {
		return nil, err
	}
	s := &Store{cfg: cfg}
	s.life, s.end = context.WithCancel(context.Background())
	s.hard, s.cancel = context.WithCancel(context.Background())
	s.ops = casstore.Store{Backend: s.backend(), Calls: &s.calls, Life: s.life, Hard: s.hard, Left: 2 * cfg.session}
	s.watchers, s.inbox.Follow = newWatchers(), s.listen
	s.link = newLink(s.life, &s.cfg, s.watchers.event)
	if err := s.link.connect(); err != nil {
		return nil, failure("open", "", err)
	}
	s.calls.Go(s.link.keep)
	later := func(err error) { cfg.log.Error("zkstore: ZooKeeper answers now, and refuses this user", "error", err) }
	if err := s.calls.Open(ctx, s.life, s.open, later); err != nil {
		_ = s.Close()
		return nil, err
	}
	s.calls.Go(s.sweep)
	return s, nil
}

// open makes the root, and learns the leader's clock.
func (s *Store) open(ctx context.Context) error {
	onlyLooks, err := casstore.Call(ctx, &s.ops, "open", "", func(ctx context.Context) (bool, error) {
		return retry(ctx, s, func(p *peer) (onlyLooks bool, err error) {
			if _, err = s.tick(p); errors.Is(err, zk.ErrNoAuth) {
				if _, _, look := p.Get(s.cfg.root); look == nil {
					return true, nil
				}
			}
			return false, err
		})
	})
	if onlyLooks {
		s.cfg.log.Warn("zkstore: this user may read locks, and not take them", "root", s.cfg.root)
	}
	s.onlyLooks.Store(onlyLooks)
	return err
}

// Describe implements [driver.Store].
func (s *Store) Describe() driver.Description {
	return driver.Description{
		Name:   "zookeeper",
		Shared: true, Permits: true, Sets: true, MinHold: true,
		Ledger: true, Inspector: true,
		OnWanted: s.inbox.On, Examine: s.examine,
		// A shorter lease could end between two messages of a busy server.
		TTLs: driver.TTLs{Least: 100 * time.Millisecond},
	}
}

// Close implements [driver.Store]. It waits for calls and goroutines under way, five seconds at
// most; the error says if that was not enough. It ends the session. A second Close waits for the
// first and returns the same error.
func (s *Store) Close() error {
	return s.calls.Close(func() error {
		s.end()
		err := s.calls.Drain("zkstore", nil)
		s.cancel()
		s.link.close()
		return err
	})
}

// backend is the store as package casstore sees it.
func (s *Store) backend() casstore.Backend {
	return casstore.Backend{
		Check: s.check, Acquire: s.acquire, Transact: s.decide, Show: s.show, Failure: s.failure,
		Explain: func(ctx context.Context, owner string, loss *driver.LeaseLostError) error {
			_, err := retry(ctx, s, func(p *peer) (struct{}, error) { return struct{}{}, s.explain(p, owner, loss) })
			return err
		},
	}
}

// check refuses, before any I/O, requests that the nodes could not hold.
func (s *Store) check(owner string, claims []driver.Claim, ttl time.Duration) error {
	if err := driver.CheckLease(owner, claims, ttl); err != nil {
		return err
	}
	if len(claims) > 1 && s.bytesOf(claims) > s.cfg.buffer {
		return &driver.ClaimError{Reason: "is too large for one request to ZooKeeper (jute.maxbuffer, WithBuffer)"}
	}
	return nil
}

// bytesOf is an upper bound of the bytes of a request about claims.
func (s *Store) bytesOf(claims []driver.Claim) int {
	total := 0
	for _, c := range claims {
		// Two operations, with the path of the lock and the data of the holder.
		total += 2*len(s.lockPath(c.Key)) + driver.MaxOwnerBytes + 2*driver.MaxNoteBytes + 512
	}
	return total
}

// makeNode makes an empty node and those above it, unless it is there.
func (s *Store) makeNode(p *peer, node string, flags int32) error {
	_, err := p.Create(node, nil, flags, s.cfg.acl)
	if errors.Is(err, zk.ErrNoNode) {
		if err = s.makeNode(p, path.Dir(node), zk.FlagPersistent); err == nil {
			_, err = p.Create(node, nil, flags, s.cfg.acl)
		}
	}
	if errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	if errors.Is(err, zk.ErrNoAuth) { // perhaps it is there, and its parent is another user's
		if exists, _, again := p.Exists(node); again == nil && exists {
			return nil
		}
	}
	return err
}

// tick writes to a node of the store's own. The time that it returns is the leader's, and not
// before that of anything that was read before.
func (s *Store) tick(p *peer) (moment, error) {
	stat, err := p.Set(s.cfg.root+clockNode, nil, -1)
	if errors.Is(err, zk.ErrNoNode) {
		if err = s.makeNode(p, s.cfg.root+clockNode, zk.FlagPersistent); err == nil {
			stat, err = p.Set(s.cfg.root+clockNode, nil, -1)
		}
	}
	if err != nil {
		return moment{}, err
	}
	p.clock.note(stat)
	now, _ := p.clock.now()
	return now, nil
}
