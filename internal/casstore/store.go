package casstore

import (
	"context"
	"time"

	"github.com/keyturn/keyturn/internal/lifetime"
	"github.com/keyturn/keyturn/internal/waitloop"
)

// Store has the calls that are one decision.
type Store struct {
	Backend
	Calls *lifetime.Lifetime // and the goroutines that calls leave behind
	Life  context.Context    // ends when Close begins
	Hard  context.Context    // ends when Close gives up
	// Left is after how long nothing is left of a place in a queue that nobody keeps alive.
	Left time.Duration
	// Forces is how many leases one transaction ends by force; 0: all.
	Forces int
}

// Patience bounds what a request does for a caller that has gone.
const Patience = 5 * time.Second

// Do runs op as [Store.Run] does. Without Run it is for clients whose calls don't end with a context: if ctx ends
// first, op has a while to end in an orderly way.
func Do[T any](ctx context.Context, s *Store, keys []string, op func(context.Context) (T, error), late func()) (value T, err error, answered bool) {
	var result T
	err, answered = s.run(ctx, keys, func(ctx context.Context) (err error) {
		result, err = op(ctx)
		return err
	}, late)
	if answered { // otherwise op may be about to write it
		value = result
	}
	return value, err, answered
}

func (s *Store) run(ctx context.Context, keys []string, work func(context.Context) error, late func()) (err error, answered bool) {
	if s.Run != nil {
		return s.Run(ctx, keys, work, late)
	}
	return waitloop.Await(ctx, s.Calls.Go, func() error {
		hard, cancel := context.WithCancel(s.Hard)
		defer cancel()
		defer context.AfterFunc(ctx, func() { time.AfterFunc(Patience, cancel) })()
		return work(hard)
	}, late)
}

// Call runs op as a call of the store's that is over when Close returns. name and key are for errors.
func Call[T any](ctx context.Context, s *Store, name, key string, op func(context.Context) (T, error)) (T, error) {
	return call(ctx, s, name, key, nil, op)
}

// call is [Call] of an op that may wait for keys.
func call[T any](ctx context.Context, s *Store, name, key string, keys []string, op func(context.Context) (T, error)) (value T, err error) {
	if err := s.Calls.Enter(); err != nil {
		return value, err
	}
	defer s.Calls.Leave()
	value, err, answered := Do(ctx, s, keys, op, nil)
	if err == nil || answered && IsAnswer(err) {
		return value, err
	}
	return value, s.Failure(name, key, err)
}
