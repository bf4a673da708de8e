package redisstore

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/internal/waitloop"
	"github.com/keyturn/keyturn/store/redisstore/internal/script"
)

// who is the state of the question which server answers.
type who struct {
	asking atomic.Bool // a question is under way, perhaps on a connection that hangs
	barred atomic.Bool // the user may not run INFO
}

var errAsking = errors.New("redisstore: the last request has no answer yet")

// identity returns the run ID of the one server, or of the master behind Sentinel. It returns
// "" on a Cluster or Ring, and if INFO is not permitted.
func (s *Store) identity(ctx context.Context) (string, error) {
	if s.keys.Topology() != script.Single || s.who.barred.Load() {
		return "", nil
	}
	if err := s.calls.Enter(); err != nil {
		return "", err
	}
	defer s.calls.Leave()
	if !s.who.asking.CompareAndSwap(false, true) {
		return "", errAsking
	}
	var id string
	err, answered := waitloop.Await(ctx, s.calls.Go, func() (err error) {
		defer s.who.asking.Store(false)
		id, err = s.info(context.WithoutCancel(ctx), "server", "run_id")
		if redis.HasErrorPrefix(err, "NOPERM ") || redis.HasErrorPrefix(err, "ERR ") {
			s.who.barred.Store(true)
		}
		return err
	}, nil)
	if !answered {
		return "", silence(ctx)
	}
	return id, err
}
