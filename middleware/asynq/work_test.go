package lockasynq_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	lockasynq "github.com/keyturn/keyturn/middleware/asynq"
)

// TestOnceComparesContent: type and payload, which are told apart.
func TestOnceComparesContent(t *testing.T) {
	t.Parallel()
	runs := 0
	h := locks(t, engine(t),
		lockasynq.Once("im:message", "msg:{payload.id}"),
		lockasynq.Once("im:receipt", "msg:{payload.id}"),
		lockasynq.Once("im:typing", "typing:{payload.id}", core.WithoutFingerprint()),
		lockasynq.Once("a", "k"),
	).Middleware(handler(func(context.Context, *asynq.Task) error { runs++; return nil }))
	for _, tt := range []struct {
		name, typename, payload string
		mismatch                bool
		runs                    int
	}{
		{"first", "im:message", `{"id":1,"text":"a"}`, false, 1},
		{"the same again", "im:message", `{"id":1,"text":"a"}`, false, 1},
		{"other payload", "im:message", `{"id":1,"text":"b"}`, true, 1},
		{"other type", "im:receipt", `{"id":1,"text":"a"}`, true, 1},
		{"first, not compared", "im:typing", `{"id":1,"at":1}`, false, 2},
		{"other payload, not compared", "im:typing", `{"id":1,"at":2}`, false, 2},
		{"one text", "ab", "c", false, 3},
		{"the same text, another border", "a", "bc", true, 3},
	} {
		err := process(context.Background(), h, tt.typename, tt.payload)
		if errors.Is(err, core.ErrFingerprintMismatch) != tt.mismatch || errors.Is(err, asynq.SkipRetry) != tt.mismatch || err != nil && !tt.mismatch {
			t.Errorf("%s: %v, want a mismatch: %t", tt.name, err, tt.mismatch)
		}
		check(t, runs == tt.runs, "%s: %d handlers ran so far, want %d", tt.name, runs, tt.runs)
	}
}

// TestLeaseIsRenewedUntilAnAbandonedHandlerReturns: asynq gives a task up at its timeout while the handler's goroutine
// goes on. The key is that goroutine's until it returns, and not only for as long as the task's context lasts.
func TestLeaseIsRenewedUntilAnAbandonedHandlerReturns(t *testing.T) {
	ctx := metadata(t)
	synctest.Test(t, func(t *testing.T) {
		l := locks(t, engine(t), lockasynq.Serialize("t", "k", core.WithMaxWait(core.Forever)))
		began := time.Now()
		abandoned, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		go func() {
			_ = process(abandoned, l.Middleware(handler(func(context.Context, *asynq.Task) error {
				time.Sleep(5 * time.Minute) // ten times the TTL
				return nil
			})), "t", "")
		}()
		synctest.Wait()
		err := process(ctx, l.Middleware(handler(succeed)), "t", "")
		check(t, err == nil && time.Since(began) == 5*time.Minute, "the next handler ran after %v (%v), want 5m", time.Since(began), err)
	})
}

// TestShutdownWhileWaitingRequeues the task, also on its last attempt, and without a retry used up.
func TestShutdownWhileWaitingRequeues(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	eng, asks, ends := watched(t)
	lease := hold(t, eng, "k")
	h := locks(t, eng, lockasynq.Serialize("im:status", "k", core.WithMaxWait(time.Hour))).Middleware(handler(succeed))
	shutdown := q.serve(h)
	ids := []string{q.enqueue("im:status", ""), q.enqueue("im:status", "", asynq.MaxRetry(0))}
	for range ids {
		ruletest.Receive(t, "the task to ask for its key", asks)
	}
	shutdown()
	for _, id := range ids {
		if info := q.info(id); info.State != asynq.TaskStatePending || info.Retried != 0 {
			t.Fatalf("after the shutdown the task is %v with %d retries used up, want pending with 0", info.State, info.Retried)
		}
		if err := ruletest.Receive(t, "the wait to end", ends); err == nil {
			t.Fatal("the abandoned wait ended with a lease")
		}
	}
	must(t, lease.Release(context.Background()))
	q.serve(h)
	for _, id := range ids {
		q.completed(id)
	}
}

// TestRescheduledTasksComeAgain more often than they have retries, of which none is used up, until the key is free.
func TestRescheduledTasksComeAgain(t *testing.T) {
	t.Parallel()
	q, eng := newQueue(t), engine(t)
	lease := hold(t, eng, "k")
	times := make(chan int, 10)
	q.serve(locks(t, eng, lockasynq.Serialize("t", "k", core.WithFailFast())).Middleware(handler(succeed)), func(cfg *asynq.Config) {
		cfg.RetryDelayFunc = func(_ int, err error, _ *asynq.Task) time.Duration {
			var again *lockasynq.RescheduleError
			if !errors.As(err, &again) {
				t.Errorf("error = %v, want a RescheduleError", err)
				return 0
			}
			times <- again.Times
			return 0 // the test is in a hurry
		}
	})
	id := q.enqueue("t", "", asynq.MaxRetry(1))
	for want := 1; want <= 4; want++ {
		got := ruletest.Receive(t, "a rescheduling", times)
		check(t, got == want, "the error says %d times, want %d", got, want)
	}
	must(t, lease.Release(context.Background()))
	info := q.completed(id)
	if all, err := q.inspector.GetQueueInfo("default"); err != nil || all.Failed != 0 || info.Retried != 0 {
		t.Errorf("%d retries were used up, %d failures, %v", info.Retried, all.Failed, err)
	}
}
