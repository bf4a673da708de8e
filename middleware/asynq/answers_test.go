package lockasynq_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/locktest"
	lockasynq "github.com/keyturn/keyturn/middleware/asynq"
)

// TestAnswers: in what state, and with how many retries used up, a task is left behind on a server,
// for each reason not to process it and each policy.
func TestAnswers(t *testing.T) {
	t.Parallel()
	const key = "k"
	held := func(t *testing.T, kit *locktest.Kit) { hold(t, kit.Engine, key) }
	down := func(_ *testing.T, kit *locktest.Kit) { kit.Store.Refuse() }
	// executed: somebody has done it, and said what of.
	executed := func(result error, opts ...core.CallOption) func(*testing.T, *locktest.Kit) {
		return func(t *testing.T, kit *locktest.Kit) {
			_, err := kit.Engine.Once(context.Background(), key, func(context.Context) ([]byte, error) { return nil, result }, opts...)
			must(t, err)
		}
	}
	returns := func(err error) func(context.Context, *locktest.Kit) error {
		return func(context.Context, *locktest.Kit) error { return err }
	}
	cutOff := func(with error) func(context.Context, *locktest.Kit) error {
		return func(ctx context.Context, kit *locktest.Kit) error {
			<-ctx.Done()
			return with
		}
	}
	loses := func(ctx context.Context, kit *locktest.Kit) error {
		kit.Store.Lose(key)
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), core.ErrLeaseLost) {
			return fmt.Errorf("the context ended with %w", context.Cause(ctx))
		}
		return nil // as if it had not noticed
	}
	serialize := func(opts ...core.CallOption) lockasynq.Rule { return lockasynq.Serialize("t", key, opts...) }
	once := func(opts ...core.CallOption) lockasynq.Rule { return lockasynq.Once("t", key, opts...) }
	const (
		retry, archived, completed = asynq.TaskStateRetry, asynq.TaskStateArchived, asynq.TaskStateCompleted

		maxHold  = `lease on "k" lost: max hold; the handler returned: `
		deadline = "context deadline exceeded"
	)
	soon, short, second := core.WithMaxWait(10*time.Millisecond), core.WithMaxHold(50*time.Millisecond), core.WithTTL(time.Second)
	last, ends := asynq.MaxRetry(0), asynq.Timeout(time.Second)
	type answer struct {
		state   asynq.TaskState
		retried int
		runs    int
		says    string
	}
	q, mux := newQueue(t), asynq.NewServeMux()
	q.serve(mux, noForwarding)
	for name, tt := range map[string]struct {
		rule    lockasynq.Rule
		prepare func(*testing.T, *locktest.Kit)
		handle  func(context.Context, *locktest.Kit) error
		want    answer
		enqueue []asynq.Option
	}{
		"waited too long":               {serialize(soon), held, nil, answer{retry, 0, 0, `"k" still held after a wait of`}, nil},
		"fail fast":                     {serialize(core.WithFailFast()), held, nil, answer{retry, 0, 0, `"k" is held by another`}, nil},
		"first execution still running": {once(soon), held, nil, answer{retry, 0, 0, `"k" still held`}, nil},
		"waits for longer than it has":  {serialize(), held, nil, answer{archived, 0, 0, deadline}, []asynq.Option{last, ends}},

		"waits on its worker":              {serialize(soon).OnConflict(lockasynq.Wait), held, nil, answer{retry, 1, 0, deadline}, []asynq.Option{ends}},
		"skips":                            {serialize().OnConflict(lockasynq.Skip), held, nil, answer{completed, 0, 0, ""}, nil},
		"skips on its last":                {once(soon).OnConflict(lockasynq.Skip), held, nil, answer{completed, 0, 0, ""}, []asynq.Option{last}},
		"fails":                            {once(soon).OnConflict(lockasynq.Fail), held, nil, answer{retry, 1, 0, "attempt failed"}, nil},
		"fails on its last":                {serialize(soon).OnConflict(lockasynq.Fail), held, nil, answer{archived, 0, 0, "attempt failed"}, []asynq.Option{last}},
		"held, though it may run unlocked": {serialize(core.WithRunUnlocked(), core.WithFailFast()), held, nil, answer{retry, 0, 0, "held"}, nil},

		"already executed":            {once(), executed(nil), nil, answer{completed, 0, 0, ""}, nil},
		"already executed, no result": {once(), executed(core.ErrSkipResult), nil, answer{completed, 0, 0, ""}, nil},
		"same id, other content":      {once(), executed(nil, core.WithFingerprint([]byte("another"))), nil, answer{archived, 0, 0, "other content"}, nil},
		"key missing":                 {lockasynq.Serialize("t", "{payload.id}"), nil, nil, answer{archived, 0, 0, "{payload.id}"}, nil},
		"payload of another type":     {lockasynq.SerializeBy("t", func([]string) string { return "k" }), nil, nil, answer{archived, 0, 0, "not JSON of a []string"}, nil},
		"no answer to a key function": {lockasynq.SerializeKeys("t", func(context.Context, map[string]any) ([]string, error) {
			return nil, errors.New("no database")
		}), nil, nil, answer{retry, 1, 0, "no database"}, nil},

		// Whatever the policy, which is about a held key: in an outage nobody knows whether it is.
		"store down":                {serialize(), down, nil, answer{retry, 0, 0, "store unavailable"}, nil},
		"store down, Once":          {once(), down, nil, answer{retry, 0, 0, "store unavailable"}, nil},
		"store down, Wait":          {serialize().OnConflict(lockasynq.Wait), down, nil, answer{retry, 0, 0, "store unavailable"}, nil},
		"store down, Skip":          {serialize().OnConflict(lockasynq.Skip), down, nil, answer{retry, 0, 0, "store unavailable"}, nil},
		"store down, Fail":          {serialize().OnConflict(lockasynq.Fail), down, nil, answer{retry, 0, 0, "store unavailable"}, nil},
		"store down, runs unlocked": {serialize(core.WithRunUnlocked()), down, nil, answer{completed, 0, 1, ""}, nil},
		"store down for the record": {once(second), nil, func(_ context.Context, kit *locktest.Kit) error {
			kit.Store.LoseAnswers()
			return nil
		}, answer{retry, 0, 1, "outcome unknown"}, nil},

		"lost while running":              {serialize(second), nil, loses, answer{retry, 1, 1, `lease on "k" lost`}, nil},
		"lost while running, Once":        {once(second), nil, loses, answer{retry, 1, 1, `lease on "k" lost`}, nil},
		"lost, and failed":                {once(short), nil, cutOff(errors.New("cut off")), answer{retry, 1, 1, maxHold + "cut off"}, nil},
		"lost, and says not to retry":     {serialize(short), nil, cutOff(fmt.Errorf("no such user: %w", asynq.SkipRetry)), answer{archived, 0, 1, maxHold + "no such user"}, nil},
		"its own error":                   {serialize(), nil, returns(errors.New("of its own")), answer{retry, 1, 1, "of its own"}, nil},
		"its own error about another key": {once(), nil, returns(&core.HeldError{Key: "another"}), answer{retry, 1, 1, `keyturn: "another" is held by another`}, nil},
		"says not to retry":               {serialize(), nil, returns(asynq.SkipRetry), answer{archived, 0, 1, asynq.SkipRetry.Error()}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kit, q := locktest.New(t), q.in(t)
			if tt.prepare != nil {
				tt.prepare(t, kit)
			}
			var runs atomic.Int32
			mux.Handle("t "+name, locks(t, kit.Engine, tt.rule).Middleware(handler(func(ctx context.Context, _ *asynq.Task) error {
				runs.Add(1)
				if tt.handle == nil {
					return nil
				}
				return tt.handle(ctx, kit)
			})))
			info := q.left(q.enqueue("t "+name, "{}", tt.enqueue...))
			got := (answer{info.State, info.Retried, int(runs.Load()), tt.want.says})
			check(t, got == tt.want, "left in %+v, want %+v", got, tt.want)
			if !strings.Contains(info.LastErr, tt.want.says) || tt.want.says == "" && info.LastErr != "" {
				t.Errorf("last error = %q, want one with %q", info.LastErr, tt.want.says)
			}
			host, _ := os.Hostname()
			check(t, !strings.Contains(info.LastErr, host), "last error = %q tells who holds the key", info.LastErr)
		})
	}
}
