// Package unlocked runs a program without its locks, for a developer's machine that has no
// store.
//
//	eng, err := core.New(unlocked.FromEnv(store, logger))
//
// It takes both: this line in the program, and KEYTURN_UNLOCKED=1 in its environment. Without
// the variable, [FromEnv] returns the store as it is. With it, nothing excludes anything and
// Once remembers nothing. The log says so at level warn: at the start, with the first grant,
// and in every minute with further grants.
//
// Never use it in production. Leave the line out of a program if somebody else can set its
// environment and it must not run unlocked.
package unlocked

import (
	"context"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// Env is the environment variable that FromEnv reads. Its values are those of
// strconv.ParseBool.
const Env = "KEYTURN_UNLOCKED"

// every is how often the log repeats that nothing is locked.
const every = time.Minute

// FromEnv returns store. If the environment variable [Env] is true, it returns another store,
// which grants everything to everybody, does not ask store, and closes store when it is closed.
// A value that is neither true nor false locks, and is logged as an error. log nil:
// slog.Default().
//
// That other store supports what store supports, and no more. So a rule that store does not
// support fails at the start here as well.
func FromEnv(store driver.Store, log *slog.Logger) driver.Store {
	value := os.Getenv(Env)
	if value == "" || store == nil {
		return store
	}
	if log == nil {
		log = slog.Default()
	}
	on, err := strconv.ParseBool(value)
	if err != nil {
		log.Error("keyturn: neither true nor false, so locks are on", "variable", Env, "value", value)
		return store
	}
	if !on {
		return store
	}
	log.Warn("keyturn: NOTHING IS LOCKED; not for production", "variable", Env)
	return &grantAll{about: store.Describe(), store: store, log: log, tokens: make(map[string]tokens)}
}

// grantAll is a store that never refuses. To their holders, leases look as usual: tokens rise,
// renewals succeed, and a lease is in force until it is released. An owner that asks again, to
// change the mode, gets its token again.
type grantAll struct {
	about driver.Description
	store driver.Store // closed with it, and not asked otherwise
	log   *slog.Logger

	mu      sync.Mutex
	last    uint64            // the greatest token that was given or reserved
	tokens  map[string]tokens // by owner, until it releases
	said    time.Time
	granted int // grants since then
}

// tokens are those of a grant.
type tokens struct{ first, reserved uint64 }

func (s *grantAll) Acquire(_ context.Context, req driver.Request) (driver.Grant, error) {
	g, due := s.grant(req, time.Now())
	if due > 0 {
		s.log.Warn("keyturn: NOTHING IS LOCKED; not for production", "variable", Env, "grants", due)
	}
	return g, nil
}

// grant grants. If a line in the log is due, it returns the number of grants since the last
// line, otherwise 0. The line is written without the mutex: a log handler may take a lease.
func (s *grantAll) grant(req driver.Request, now time.Time) (g driver.Grant, due int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g = driver.Grant{Owner: req.Owner, Claims: req.Claims, TTL: req.TTL}
	if own, again := s.tokens[req.Owner]; again {
		g.Token, g.HandOffs = own.first, own.reserved
		return g, 0
	}
	g.Token, g.HandOffs = driver.NextTokens(s.last, now, req.HandOffs)
	s.last = g.Token + g.HandOffs
	s.tokens[req.Owner] = tokens{g.Token, g.HandOffs}
	s.granted++
	if s.said.IsZero() || now.Sub(s.said) >= every {
		due = s.granted
		s.said, s.granted = now, 0
	}
	return g, due
}

func (s *grantAll) Renew(_ context.Context, grants []driver.Grant) []error {
	return make([]error, len(grants))
}

func (s *grantAll) Downgrade(context.Context, driver.Grant) error { return nil }

func (s *grantAll) Release(_ context.Context, g driver.Grant) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.tokens, g.Owner)
	return nil
}

// Describe offers what the store does that it stands in for, so far as that has no
// effect. The name is another one: what is measured must not look like a real store's.
func (s *grantAll) Describe() driver.Description {
	d := s.about
	d.Name = "unlocked"
	d.Partition, d.Identity, d.OnImpaired, d.Examine = nil, nil, nil, nil
	if d.OnWanted != nil {
		d.OnWanted = func(func(key, owner string)) {} // no lease is in anybody's way
	}
	return d
}

func (s *grantAll) Close() error { return s.store.Close() }

// Begin remembers no execution.
func (s *grantAll) Begin(ctx context.Context, req driver.Request) (driver.Grant, *driver.Record, error) {
	g, err := s.Acquire(ctx, req)
	return g, nil, err
}

func (s *grantAll) Complete(ctx context.Context, g driver.Grant, _ driver.Record, _ time.Duration) error {
	return s.Release(ctx, g)
}

// AdvanceVersion finds every version the newest.
func (*grantAll) AdvanceVersion(_ context.Context, _ string, version uint64, _ time.Duration) (uint64, error) {
	return version, nil
}

// Inspect shows a key that nobody holds.
func (*grantAll) Inspect(_ context.Context, key string) (driver.LockInfo, error) {
	return driver.LockInfo{Key: key}, nil
}

func (*grantAll) List(context.Context, driver.Listing) ([]driver.LockInfo, string, error) {
	return nil, "", nil
}

func (*grantAll) ForceRelease(context.Context, string, string, ...driver.Holder) ([]driver.Holder, error) {
	return nil, nil
}

func (*grantAll) Forget(context.Context, string) (bool, error) { return false, nil }
