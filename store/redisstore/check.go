package redisstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/redisstore/internal/inbox"
	"github.com/keyturn/keyturn/store/redisstore/internal/script"
)

// checkTimeout bounds a check of its own, should its caller have more time.
const checkTimeout = 5 * time.Second

// checkItem is one thing that may be wrong with a server or its user.
type checkItem struct {
	about  string
	advice string
	look   func(*Store, context.Context) error
}

// checks are what [Store.Check] looks at.
var checks = append([]checkItem{
	{"locks", "see the permissions in docs/operations.md", (*Store).checkLocks},
	{"messages", inbox.Advice, (*Store).checkMessages},
}, settings...)

// CheckError is something that [Store.Check] has found.
type CheckError struct {
	About  string // "locks", "messages", or the name of a server's setting
	Advice string // what to do
	Err    error  // what is wrong
}

// Error implements error.
func (e *CheckError) Error() string {
	return fmt.Sprintf("redisstore: check of %s: %v (%s)", e.About, e.Err, e.Advice)
}

// Unwrap returns Err.
func (e *CheckError) Unwrap() error { return e.Err }

// Check finds out whether the server and its user are as the store needs them: it takes
// and releases a lock on a key of its own, sends itself a message, and looks whether the
// server may evict locks, or go on with them beside a master that Sentinel promotes. It is for a program's start, or a command for operators; each of
// its parts takes 5 s at most. The error joins a [*CheckError] for each thing that is
// wrong. Settings that the user may not read count as right, and so do messages on a Ring,
// which has none.
func (s *Store) Check(ctx context.Context) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	var errs []error
	for _, c := range checks {
		ctx, cancel := context.WithTimeout(ctx, checkTimeout)
		if err := c.look(s, ctx); err != nil {
			errs = append(errs, &CheckError{About: c.about, Advice: c.advice, Err: s.closedOr(err)})
		}
		cancel()
	}
	return errors.Join(errs...)
}

// checkLocks takes a lock and releases it.
func (s *Store) checkLocks(ctx context.Context) error {
	owner := "check/" + script.RandomID()
	req := driver.Request{Owner: owner, Claims: []driver.Claim{driver.Exclusive("keyturn:" + owner)}, TTL: checkTimeout}
	g, _, err := s.acquire(ctx, req, false)
	if err != nil {
		return err
	}
	return s.Release(ctx, g)
}

// checkMessages subscribes to a channel of its own and waits for a message to it.
func (s *Store) checkMessages(ctx context.Context) error {
	if s.keys.Topology() == script.Ring {
		return nil
	}
	channel := s.keys.NewInbox()
	if _, err := s.inbox.Publish(ctx, channel, channel); err != nil {
		return err
	}
	sub := s.client.Subscribe(ctx, channel)
	defer sub.Close() // an error would be that it is closed
	defer context.AfterFunc(ctx, func() { _ = sub.Close() })()
	for {
		msg, err := sub.Receive(ctx)
		switch {
		case err != nil && ctx.Err() != nil:
			return fmt.Errorf("%w: %w", inbox.ErrUnheard, context.Cause(ctx))
		case err != nil:
			return err
		}
		switch msg.(type) {
		case *redis.Subscription:
			if _, err := s.inbox.Publish(ctx, channel, channel); err != nil {
				return err
			}
		case *redis.Message:
			return nil
		}
	}
}
