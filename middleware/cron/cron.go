package lockcron

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/robfig/cron/v3"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/author"
	"github.com/keyturn/keyturn/core/coverage"
	"github.com/keyturn/keyturn/internal/rule"
)

// Serialize returns a wrapper for cron.NewChain: of all processes, one runs the wrapped job at each
// tick. key names the job in the whole fleet, such as "cron:cleanup". Put the wrapper last in the
// chain, next to the job, so that a [Func] gets its context and the others see that it has ended.
//
// A job's context descends from ctx. After ctx has ended no job runs any more. What becomes of a job
// is logged by the engine's logger (core.WithLogger). If the store has no leases as short as the rule
// asks for, there is a warning: schedules that come sooner would skip ticks.
//
// opts are the rule's policy. Without others, a job does not wait for its key (core.WithFailFast),
// keeps it for half a second at least (core.WithMinHold) and without a bound (core.WithMaxHold).
//
// It does no I/O. The error joins everything that is wrong: a nil engine, a key that can't name a
// lock, an option out of range (core.ErrInvalidOption), or what the engine's store does not support
// (errors.ErrUnsupported).
func Serialize(ctx context.Context, eng *core.Engine, key string, opts ...core.CallOption) (cron.JobWrapper, error) {
	r, err := rule.Compile(eng, rule.Spec[string]{
		Name:     key,
		Key:      func(key string) (string, error) { return key, nil },
		Skips:    coverage.SkipHeld,
		Defaults: rule.Tick(),
		Options:  opts,
	}, nil)
	if err != nil {
		return nil, fmt.Errorf("lockcron: %w", err)
	}
	if ctx == nil {
		return nil, fmt.Errorf("lockcron: %w", &core.OptionError{Option: "Serialize", Value: nil, Want: "a context"})
	}
	keys, err := r.Keys(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("lockcron: %w", err)
	}
	return func(j cron.Job) cron.Job { return &job{ctx: ctx, rule: r, keys: keys, job: j} }, nil
}

// Func is a job with a context, and an error, which is logged. Without a wrapper of [Serialize] its
// context is context.Background.
type Func func(context.Context) error

// Run implements cron.Job.
func (f Func) Run() { logFailure(context.Background(), slog.Default(), "", f(context.Background())) }

// job is a job that runs under its rule.
type job struct {
	ctx  context.Context // of the program; a run of a job has no other
	rule *rule.Rule[string]
	keys rule.Keys
	job  cron.Job
}

// Run implements cron.Job.
func (j *job) Run() {
	ctx, log := j.ctx, author.Logger(j.rule.Engine())
	if ctx.Err() != nil {
		return
	}
	refused, own := j.rule.Serialize(ctx, j.keys, func(ctx context.Context) error {
		if f, ok := j.job.(Func); ok {
			return f(ctx)
		}
		j.job.Run()
		return nil
	})
	logFailure(ctx, log, j.rule.Name, own)
	switch {
	case refused == nil, errors.Is(refused, core.ErrLeaseLost): // the engine logs a loss
	case errors.Is(refused, core.ErrHeld):
		j.rule.Skipped(ctx, coverage.SkipHeld)
	default:
		log.WarnContext(ctx, "lockcron: job did not run", "rule", j.rule.Name, "error", refused)
	}
}

func logFailure(ctx context.Context, log *slog.Logger, rule string, err error) {
	if err != nil {
		log.ErrorContext(ctx, "lockcron: job failed", "rule", rule, "error", err)
	}
}
