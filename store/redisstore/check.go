package redisstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/waitloop"
	"github.com/keyturn/keyturn/store/internal/onredis"
	"github.com/keyturn/keyturn/store/redisstore/internal/inbox"
	"github.com/keyturn/keyturn/store/redisstore/internal/script"
)

// checkTimeout bounds each check, even if its caller has more time.
const checkTimeout = 5 * time.Second

// checkItem is one thing that may be wrong with a server or its user.
type checkItem struct {
	about  string
	advice func(error) string
	look   func(*Store, context.Context) error
}

// checks are what [Store.Check] looks at once it has reached a server.
var checks = append([]checkItem{
	{"locks", lockAdvice, (*Store).checkLocks},
	{"messages", always(inbox.Advice), (*Store).checkMessages},
}, settings...)

// always is advice that does not depend on the error.
func always(advice string) func(error) string { return func(error) string { return advice } }

// serverAdvice is for a client that reaches no server, or that the server does not let in.
func serverAdvice(err error) string {
	if script.Answered(err) {
		return inbox.LoginAdvice
	}
	return "check the client's address and TLS settings, the network, and whether the server runs"
}

// lockAdvice is for a server that refuses to grant.
func lockAdvice(err error) string {
	switch {
	case errors.Is(err, ErrReadOnly):
		return "connect to the master; a client for Sentinel or for a Cluster finds it"
	case errors.Is(err, ErrNoReplicas):
		return "see WithReplicas, and min-replicas-to-write of the server"
	case errors.Is(err, ErrOutOfMemory):
		return "see Memory in docs/operations.md"
	case script.NoCommand(err):
		return "use Redis 6.2 or later, without rename-command"
	}
	return "see Permissions, and Servers that are not Redis, in docs/operations.md"
}

// CheckError is a problem that [Store.Check] has found.
type CheckError struct {
	About  string // "server", "locks", "messages", or the name of a server's setting
	Advice string // what to do
	Err    error  // what is wrong
}

// Error implements error.
func (e *CheckError) Error() string {
	return fmt.Sprintf("redisstore: check of %s: %v (%s)", e.About, e.Err, e.Advice)
}

// Unwrap returns Err.
func (e *CheckError) Unwrap() error { return e.Err }

// Check tests whether the server and its user are as the store needs them. It acquires, waits for
// and releases leases of every mode on a key of its own, of a Cluster on each master, and sends
// itself a message. It also looks at two settings: whether the server may evict locks, and whether a
// master that is cut off goes on serving beside the one that Sentinel promotes. Call it at the start
// of a program, or from a command for operators. Each part takes 5 s at most.
//
// The error joins a [*CheckError] for each problem. If no server answers, or the server does not
// let the client in, that is the only problem, About "server". A setting that the user may not read
// counts as right. Messages on a Ring count as right, too, because a Ring has none.
func (s *Store) Check(ctx context.Context) error {
	if err := s.calls.Enter(); err != nil {
		return err
	}
	defer s.calls.Leave()
	if err := s.check(ctx, checkItem{"server", serverAdvice, (*Store).checkServer}); err != nil {
		return errors.Join(err)
	}
	var errs []error
	for _, item := range checks {
		errs = append(errs, s.check(ctx, item))
	}
	return errors.Join(errs...)
}

// check looks at one thing.
func (s *Store) check(ctx context.Context, item checkItem) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	err, answered := waitloop.Await(ctx, s.calls.Go, func() error { return item.look(s, ctx) }, nil)
	if !answered {
		err = &driver.UnavailableError{Op: "check", Err: silence(ctx)}
	}
	if err == nil {
		return nil
	}
	e := &CheckError{About: item.about, Advice: item.advice(err), Err: err}
	if s.ctx.Err() != nil {
		e.Err = driver.ErrClosed
	}
	return e
}

// checkServer asks for any answer. Other commands would fail for the same reason, with errors that
// hide it: a server that wants a password first calls a script with many words a protocol error.
func (s *Store) checkServer(ctx context.Context) error {
	err := s.client.Ping(ctx).Err()
	if script.Answered(err) && !script.NoLogin(err) {
		return nil
	}
	return &driver.UnavailableError{Op: "check", Refused: script.Answered(err), Err: err}
}

// checkLocks rehearses with one key; on a Cluster with one of each master, which have users and memory
// of their own.
func (s *Store) checkLocks(ctx context.Context) error {
	cluster, ok := s.client.(*redis.ClusterClient)
	if !ok {
		return s.rehearse(ctx, checkKey())
	}
	return cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		const most = 10_000 // a master with few slots is left out
		addr := node.Options().Addr
		for range most {
			key := checkKey()
			master, err := cluster.MasterForKey(ctx, s.keys.Lock(key))
			if err != nil || master.Options().Addr != addr {
				continue
			}
			if err := s.rehearse(ctx, key); err != nil {
				return fmt.Errorf("%s: %w", addr, err)
			}
			return nil
		}
		return nil
	})
}

func checkKey() string { return "keyturn:check/" + rand.Text() }

// checkMessages subscribes to a channel of its own and waits for a message to it.
func (s *Store) checkMessages(ctx context.Context) error {
	if s.keys.Topology() == script.Ring {
		return nil
	}
	channel := s.keys.NewInbox()
	if _, err := s.inbox.Publish(ctx, channel, channel); err != nil {
		return err
	}
	err := onredis.Hears(ctx, s.client.Subscribe(ctx, channel), func() error {
		_, err := s.inbox.Publish(ctx, channel, channel)
		return err
	})
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w: %w", inbox.ErrUnheard, context.Cause(ctx))
	}
	return err
}
