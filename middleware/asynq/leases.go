package lockasynq

import (
	"context"
	"maps"

	"github.com/hibiken/asynq"

	"github.com/keyturn/keyturn/core"
)

// LeaseHeader is the task header in which leases are carried.
const LeaseHeader = "keyturn-lease"

// CarryLeases returns a copy of headers, nil for none, to which the leases that
// are in force in ctx are added (core.CarryLeases). With [AcceptLeases] on the
// worker's side the task can take the same keys without waiting for who enqueued
// it:
//
//	task := asynq.NewTaskWithHeaders("im:status", payload, lockasynq.CarryLeases(ctx, nil))
//
// That is for the one case in which the lease is held until the task is done: its
// holder waits for the result. A task that is processed after the release is a
// stranger, as any other. What is in the header is a credential, and whoever can
// look into the queue can read it.
func CarryLeases(ctx context.Context, headers map[string]string) map[string]string {
	all := make(map[string]string, len(headers)+1)
	maps.Copy(all, headers)
	if leases := core.CarryLeases(ctx); leases != "" {
		all[LeaseHeader] = leases
	}
	return all
}

// AcceptLeases is an [asynq.MiddlewareFunc] that takes what [CarryLeases] put into
// a task's headers into the handler's context. It is believed as far as the store
// confirms it (core.WithCarried), by the rules behind this middleware and by what
// the handler itself acquires. Give it to [asynq.ServeMux.Use] before
// [Locks.Middleware]. A server without it takes no notice.
//
// It panics if next is nil, as asynq does.
func AcceptLeases(next asynq.Handler) asynq.Handler {
	if next == nil {
		panic("lockasynq: nil handler")
	}
	return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		return next.ProcessTask(core.WithCarried(ctx, task.Headers()[LeaseHeader]), task)
	})
}
