package lock

import (
	"context"
	"errors"
	"sync"
)

// mutexSuffix is behind the name of a system that is used behind a mutex.
const mutexSuffix = "+mutex"

// mutexed is a library behind a mutex of this process for each key, as users of one that
// has no line within the process set it up where many goroutines want the same key.
type mutexed struct {
	Locker
	keys sync.Map // from a key to its mutex, a channel that is full while somebody has it
}

func (m *mutexed) Lock(ctx context.Context, key string) (Unlock, error) {
	local, ok := m.keys.Load(key)
	if !ok {
		local, _ = m.keys.LoadOrStore(key, make(chan struct{}, 1))
	}
	mutex := local.(chan struct{})
	select {
	case mutex <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	unlock, err := m.Locker.Lock(ctx, key)
	if err != nil {
		<-mutex
		return nil, err
	}
	return func(ctx context.Context) error {
		defer func() { <-mutex }()
		return unlock(ctx)
	}, nil
}

// openMutexed opens the system of that name behind a mutex.
func openMutexed(name string, cfg Config) (Locker, error) {
	if name == "keyturn" {
		return nil, errors.New("keyturn has a line of its own")
	}
	l, err := Open(name, cfg)
	if err != nil {
		return nil, err
	}
	return &mutexed{Locker: l}, nil
}
