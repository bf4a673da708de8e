// Package asynqcarry lets a task run under the leases of its enqueuer: see
// core/experimental/carry. It is for an enqueuer that holds a key until the task is done, and
// waits for the result. If the task takes the same key, it would otherwise wait for its
// enqueuer.
//
//	task := asynq.NewTaskWithHeaders("im:status", payload, asynqcarry.Headers(ctx, nil))
//	mux.Use(asynqcarry.Accept, locks.Middleware)
//
// A task that is processed after the release waits for its turn like any other. The package is
// experimental, as its place says. Its functions are safe for concurrent use.
package asynqcarry

import (
	"context"
	"maps"

	"github.com/hibiken/asynq"

	"github.com/keyturn/keyturn/core/experimental/carry"
)

// Headers returns a copy of headers (nil: none) with the leases that are in force in ctx, and no others. What
// it adds is a credential: everybody who can read the queue can read it.
func Headers(ctx context.Context, headers map[string]string) map[string]string {
	all := make(map[string]string, len(headers)+1)
	maps.Copy(all, headers)
	delete(all, carry.Header)
	if leases := carry.Leases(ctx); leases != "" {
		all[carry.Header] = leases
	}
	return all
}

// Accept is an [asynq.MiddlewareFunc] that runs next under the leases in a task's headers, as
// far as the store confirms them (carry.Accept). Give it to [asynq.ServeMux.Use] before
// lockasynq's middleware. A server without it ignores what tasks carry.
//
// It panics if next is nil, as asynq does.
func Accept(next asynq.Handler) asynq.Handler {
	if next == nil {
		panic("asynqcarry: nil handler")
	}
	return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		return next.ProcessTask(carry.Accept(ctx, task.Headers()[carry.Header]), task)
	})
}
