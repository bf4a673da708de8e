package migrating

import (
	"context"
	"time"

	"github.com/go-redsync/redsync/v4"
)

func withRedsync(ctx context.Context, locks *redsync.Redsync, order string, charge work) error {
	mutex := locks.NewMutex("order:"+order, redsync.WithExpiry(30*time.Second), redsync.WithTries(600))
	if err := mutex.LockContext(ctx); err != nil {
		return err
	}
	defer mutex.UnlockContext(context.WithoutCancel(ctx))
	return charge(ctx) // which calls mutex.ExtendContext if it takes long
}
