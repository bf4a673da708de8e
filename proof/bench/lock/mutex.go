package lock

import (
	"context"
	"sync"
)

// mutexSuffix is behind the name of a system that is used behind a mutex.
const mutexSuffix = "+mutex"

// Mutexed returns the names of all peers behind a mutex. keyturn has a line of its own.
func Mutexed() []string {
	names := Libraries()[1:]
	for i := range names {
		names[i] += mutexSuffix
	}
	return names
}

// behindMutex puts a library behind a mutex of this process for each key, as users of one that
// has no line within the process set it up where many goroutines want the same key.
func behindMutex(l *Locker) {
	var keys sync.Map // from a key to its mutex, a channel that is full while somebody has it
	lock := l.Lock
	l.Lock = func(ctx context.Context, key string) (Unlock, error) {
		local, ok := keys.Load(key)
		if !ok {
			local, _ = keys.LoadOrStore(key, make(chan struct{}, 1))
		}
		mutex := local.(chan struct{})
		select {
		case mutex <- struct{}{}:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		unlock, err := lock(ctx, key)
		if err != nil {
			<-mutex
			return nil, err
		}
		return func(ctx context.Context) error {
			defer func() { <-mutex }()
			return unlock(ctx)
		}, nil
	}
}
