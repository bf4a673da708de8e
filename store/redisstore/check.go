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

// checkTimeout bounds each check, even if its caller has more time.
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

// CheckError is a problem that [Store.Check] has found.
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

// Check tests whether the server and its user are as the store needs them. It takes and
// releases a lock on a key of its own, and sends itself a message. It also looks at two
// settings: whether the server may evict locks, and whether a master that is cut off goes on
// serving beside the one that Sentinel promotes. Call it at the start of a program, or from a
// command for operators. Each part takes 5 s at most.
//
// The error joins a [*CheckError] for each problem. A setting that the user may not read counts
// as right. Messages on a Ring count as right, too, because a Ring has none.
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
	defer sub.Close() // the only error is that it is closed
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
