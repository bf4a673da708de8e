package lockasynq_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	lockasynq "github.com/keyturn/keyturn/middleware/asynq"
	"github.com/keyturn/keyturn/store/memstore"
)

// faultyStore is a store whose parts can be switched off.
type faultyStore struct {
	*memstore.Store
	down       atomic.Bool // answers no acquisition
	renewFails atomic.Bool // says that leases are lost
	mute       atomic.Bool // answers no Complete, and carries it out or not
	records    bool        // a mute Complete does carry it out
}

func newFaultyStore() *faultyStore { return &faultyStore{Store: memstore.New()} }

func outage() error { return &core.UnavailableError{Op: "acquire", Err: errors.New("for this test")} }

func (s *faultyStore) Acquire(ctx context.Context, req driver.Request) (driver.Grant, error) {
	if s.down.Load() {
		return driver.Grant{}, outage()
	}
	return s.Store.Acquire(ctx, req)
}

func (s *faultyStore) Begin(ctx context.Context, req driver.Request) (driver.Grant, *driver.Record, error) {
	if s.down.Load() {
		return driver.Grant{}, nil, outage()
	}
	return s.Store.Begin(ctx, req)
}

func (s *faultyStore) Renew(ctx context.Context, grants []driver.Grant) []error {
	if !s.renewFails.Load() {
		return s.Store.Renew(ctx, grants)
	}
	errs := make([]error, len(grants))
	for i, g := range grants {
		errs[i] = &core.LeaseLostError{Key: g.Claims[0].Key, Reason: driver.LossTaken}
	}
	return errs
}

func (s *faultyStore) Complete(ctx context.Context, g driver.Grant, rec driver.Record, retention time.Duration) error {
	if !s.mute.Load() {
		return s.Store.Complete(ctx, g, rec, retention)
	}
	if s.records {
		_ = s.Store.Complete(ctx, g, rec, retention)
	}
	return errors.New("no answer") // which is all that is known
}

// Section 8 of the design, row by row, in the state and the retries in which a
// task is left behind.
func TestAnswers(t *testing.T) {
	t.Parallel()
	const key = "k"
	type setting struct {
		store *faultyStore
		eng   *core.Engine
		q     *queue
	}
	tests := []struct {
		name    string
		rule    lockasynq.Rule
		engine  []core.EngineOption
		prepare func(*testing.T, setting)
		handle  func(context.Context, setting) error
		enqueue []asynq.Option
		state   asynq.TaskState
		retried int
		runs    int
		says    string
	}{
		{
			name:    "waited too long",
			rule:    lockasynq.Serialize("t", key, core.WithMaxWait(10*time.Millisecond)),
			prepare: func(t *testing.T, s setting) { hold(t, s.eng, key) },
			state:   asynq.TaskStateRetry, says: `"k" still held after a wait of`,
		},
		{
			name:    "fail fast",
			rule:    lockasynq.Serialize("t", key, core.WithFailFast()),
			prepare: func(t *testing.T, s setting) { hold(t, s.eng, key) },
			state:   asynq.TaskStateRetry, says: `"k" is held by another`,
		},
		{
			name:    "first execution still running",
			rule:    lockasynq.Once("t", key, core.WithMaxWait(10*time.Millisecond)),
			prepare: func(t *testing.T, s setting) { hold(t, s.eng, key) },
			state:   asynq.TaskStateRetry, says: `"k" still held`,
		},
		{
			name:   "too many waiters",
			rule:   lockasynq.Serialize("t", key),
			engine: []core.EngineOption{core.WithMaxWaiters(1)},
			prepare: func(t *testing.T, s setting) {
				hold(t, s.eng, key)
				ctx, cancel := context.WithCancel(context.Background())
				inLine := make(chan struct{})
				go func() {
					defer close(inLine)
					for err := core.ErrTooManyWaiters; errors.Is(err, core.ErrTooManyWaiters); { // because of the look below
						_, err = s.eng.Acquire(ctx, key)
					}
				}()
				t.Cleanup(func() { cancel(); <-inLine })
				await(t, "the line to be full", func() bool {
					short, cancel := context.WithTimeout(ctx, time.Millisecond)
					defer cancel()
					_, err := s.eng.Acquire(short, key)
					return errors.Is(err, core.ErrTooManyWaiters)
				})
			},
			state: asynq.TaskStateRetry, says: `already wait for "k"`,
		},
		{
			name: "already executed",
			rule: lockasynq.Once("t", key),
			prepare: func(t *testing.T, s setting) {
				_, err := s.eng.Once(context.Background(), key, func(context.Context) ([]byte, error) { return nil, nil })
				if err != nil {
					t.Fatal(err)
				}
			},
			state: asynq.TaskStateCompleted,
		},
		{
			name: "same id, other content",
			rule: lockasynq.Once("t", key),
			prepare: func(t *testing.T, s setting) {
				_, err := s.eng.Once(context.Background(), key, func(context.Context) ([]byte, error) { return nil, nil },
					core.WithFingerprint([]byte("another")))
				if err != nil {
					t.Fatal(err)
				}
			},
			state: asynq.TaskStateArchived, says: "other content",
		},
		{
			name:  "key missing",
			rule:  lockasynq.Serialize("t", "{payload.id}"),
			state: asynq.TaskStateArchived, says: "{payload.id}",
		},
		{
			name:  "key invalid",
			rule:  lockasynq.SerializeBy("t", func(map[string]any) string { return "{}" }),
			state: asynq.TaskStateArchived, says: "contains a brace",
		},
		{
			name:  "payload of another type",
			rule:  lockasynq.SerializeBy("t", func([]string) string { return "k" }),
			state: asynq.TaskStateArchived, says: "not JSON of a []string",
		},
		{
			name: "no answer to a key function",
			rule: lockasynq.SerializeKeys("t", func(context.Context, map[string]any) ([]string, error) {
				return nil, errors.New("no database")
			}),
			state: asynq.TaskStateRetry, retried: 1, says: "no database",
		},
		{
			name:    "store down",
			rule:    lockasynq.Serialize("t", key),
			prepare: func(_ *testing.T, s setting) { s.store.down.Store(true) },
			state:   asynq.TaskStateRetry, says: "store unavailable",
		},
		{
			name:    "store down, Once",
			rule:    lockasynq.Once("t", key),
			prepare: func(_ *testing.T, s setting) { s.store.down.Store(true) },
			state:   asynq.TaskStateRetry, says: "store unavailable",
		},
		{
			name:    "store down, and the rule says to run unlocked",
			rule:    lockasynq.Serialize("t", key, core.WithRunUnlocked()),
			prepare: func(_ *testing.T, s setting) { s.store.down.Store(true) },
			state:   asynq.TaskStateCompleted, runs: 1,
		},
		{
			name:    "held, and the rule says to run unlocked when the store is down",
			rule:    lockasynq.Serialize("t", key, core.WithRunUnlocked(), core.WithFailFast()),
			prepare: func(t *testing.T, s setting) { hold(t, s.eng, key) },
			state:   asynq.TaskStateRetry, says: "held",
		},
		{
			name:   "store down when the record is due",
			rule:   lockasynq.Once("t", key, core.WithTTL(time.Second)),
			handle: func(_ context.Context, s setting) error { s.store.mute.Store(true); return nil },
			state:  asynq.TaskStateRetry, runs: 1, says: "outcome unknown",
		},
		{
			name: "lease lost while running",
			rule: lockasynq.Serialize("t", key, core.WithTTL(time.Second)),
			handle: func(ctx context.Context, s setting) error {
				s.store.renewFails.Store(true)
				<-ctx.Done()
				if !errors.Is(context.Cause(ctx), core.ErrLeaseLost) {
					return fmt.Errorf("the context ended with %w", context.Cause(ctx))
				}
				return nil // as if it had not noticed
			},
			state: asynq.TaskStateRetry, retried: 1, runs: 1, says: `lease on "k" lost`,
		},
		{
			name: "lease lost while running, Once",
			rule: lockasynq.Once("t", key, core.WithTTL(time.Second)),
			handle: func(ctx context.Context, s setting) error {
				s.store.renewFails.Store(true)
				<-ctx.Done()
				return nil
			},
			state: asynq.TaskStateRetry, retried: 1, runs: 1, says: `lease on "k" lost`,
		},
		{
			name: "lease lost and handler failed",
			rule: lockasynq.Once("t", key, core.WithMaxHold(50*time.Millisecond)),
			handle: func(ctx context.Context, _ setting) error {
				<-ctx.Done()
				return errors.New("cut off")
			},
			state: asynq.TaskStateRetry, retried: 1, runs: 1, says: `lease on "k" lost: max hold; the handler returned: cut off`,
		},
		{
			name: "lease lost and handler says not to retry",
			rule: lockasynq.Serialize("t", key, core.WithMaxHold(50*time.Millisecond)),
			handle: func(ctx context.Context, _ setting) error {
				<-ctx.Done()
				return fmt.Errorf("no such user: %w", asynq.SkipRetry)
			},
			state: asynq.TaskStateArchived, runs: 1, says: `lease on "k" lost: max hold; the handler returned: no such user`,
		},
		{
			name:    "the task's own deadline while it waits",
			rule:    lockasynq.Serialize("t", key),
			prepare: func(t *testing.T, s setting) { hold(t, s.eng, key) },
			enqueue: []asynq.Option{asynq.MaxRetry(0), asynq.Timeout(time.Second)},
			state:   asynq.TaskStateArchived, says: "context deadline exceeded",
		},
		{
			name:   "the handler's own error",
			rule:   lockasynq.Serialize("t", key),
			handle: func(context.Context, setting) error { return errors.New("of its own") },
			state:  asynq.TaskStateRetry, retried: 1, runs: 1, says: "of its own",
		},
		{
			name:   "the handler's own error about another lock",
			rule:   lockasynq.Once("t", key),
			handle: func(context.Context, setting) error { return &core.HeldError{Key: "another"} },
			state:  asynq.TaskStateRetry, retried: 1, runs: 1, says: `keyturn: "another" is held by another`,
		},
		{
			name:   "the handler says not to retry",
			rule:   lockasynq.Serialize("t", key),
			handle: func(context.Context, setting) error { return asynq.SkipRetry },
			state:  asynq.TaskStateArchived, runs: 1, says: asynq.SkipRetry.Error(),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			store := newFaultyStore()
			s := setting{store: store, eng: engine(t, store, tt.engine...), q: newQueue(t)}
			if tt.prepare != nil {
				tt.prepare(t, s)
			}
			var runs atomic.Int32
			s.q.serve(locks(t, s.eng, tt.rule).Middleware(handler(func(ctx context.Context, _ *asynq.Task) error {
				runs.Add(1)
				if tt.handle == nil {
					return nil
				}
				return tt.handle(ctx, s)
			})), noForwarding)
			info := s.q.left(s.q.enqueue("t", "{}", tt.enqueue...))
			if info.State != tt.state || info.Retried != tt.retried {
				t.Errorf("task is %v with %d retries used up, want %v with %d", info.State, info.Retried, tt.state, tt.retried)
			}
			if !strings.Contains(info.LastErr, tt.says) || tt.says == "" && info.LastErr != "" {
				t.Errorf("last error = %q, want one with %q", info.LastErr, tt.says)
			}
			if int(runs.Load()) != tt.runs {
				t.Errorf("the handler ran %d times, want %d", runs.Load(), tt.runs)
			}
		})
	}
}
