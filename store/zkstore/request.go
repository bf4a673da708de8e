package zkstore

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/keyturn/keyturn/internal/waitloop"
)

// mostBroken is how many connections may end under one request.
const mostBroken = 4

// retries counts the attempts at an operation.
type retries struct {
	broken int
	tries  int
}

// again reports whether to try once more after err. It pauses if others were in the way.
func (r *retries) again(ctx context.Context, err error) bool {
	if ctx.Err() != nil || errors.Is(err, errNoSession) {
		return false
	}
	r.tries++
	switch {
	case isConflict(err):
		if r.tries < 3 {
			return true
		}
	case isBroken(err):
		if r.broken++; r.broken >= mostBroken {
			return false
		}
	default:
		return false
	}
	// The random part keeps two requests from meeting again.
	return waitloop.Sleep(ctx, rand.N(time.Millisecond<<min(r.tries, 5)))
}

// retry repeats a request that does no harm when it is carried out twice.
func retry[T any](ctx context.Context, s *Store, op func(*peer) (T, error)) (v T, err error) {
	for r := (retries{}); ; {
		p, err := s.link.get(ctx, patience)
		if err != nil {
			return v, err
		}
		if v, err = op(p); err == nil || !r.again(ctx, err) {
			return v, err
		}
	}
}
