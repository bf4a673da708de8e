package lockgocron

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-co-op/gocron/v2"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/coverage"
	"github.com/keyturn/keyturn/internal/rule"
	"github.com/keyturn/keyturn/keytmpl"
)

// Locker is a gocron.Locker: of all processes, one runs a job at each tick. It is safe for
// concurrent use. Make one with [NewLocker].
type Locker struct{ rule *rule.Rule[string] }

// NewLocker makes a Locker whose keys come from template, such as "cron:{job}". The only
// placeholder is {job}, the name of the job (gocron.WithName; otherwise the name of its function).
//
// opts are the rule's policy. Without others, a job does not wait for its key (core.WithFailFast),
// keeps it for half a second at least (core.WithMinHold) and without a bound (core.WithMaxHold).
//
// If the store has no leases as short as the rule asks for, the engine's logger gets a warning:
// schedules that come sooner would skip ticks.
//
// It does no I/O. The error joins everything that is wrong: a nil engine, a wrong template, an
// option out of range (core.ErrInvalidOption), or what the engine's store does not support
// (errors.ErrUnsupported).
func NewLocker(eng *core.Engine, template string, opts ...core.CallOption) (*Locker, error) {
	r, err := rule.Compile(eng, rule.Spec[string]{
		Name:     template,
		Template: template,
		Skips:    coverage.SkipHeld,
		Defaults: rule.Tick(),
		Options:  opts,
	}, bind)
	if err != nil {
		return nil, fmt.Errorf("lockgocron: %w", err)
	}
	return &Locker{rule: r}, nil
}

func bind(p keytmpl.Placeholder) (rule.Source[string], error) {
	if len(p.Path) != 1 || p.Path[0].Name != "job" || p.Multiple() {
		return rule.Source[string]{}, errors.New("is no part of a job: use {job}")
	}
	return rule.Source[string]{One: func(job string) (string, error) { return job, nil }}, nil
}

// Lock implements gocron.Locker. The lock is held until Unlock, whatever becomes of ctx: gocron ends
// it before the job has returned.
func (l *Locker) Lock(ctx context.Context, job string) (gocron.Lock, error) {
	keys, err := l.rule.Keys(ctx, job)
	if err != nil {
		return nil, err
	}
	turn, err := l.rule.Take(ctx, keys)
	if err != nil {
		if errors.Is(err, core.ErrHeld) {
			l.rule.Skipped(ctx, coverage.SkipHeld)
		}
		return nil, err
	}
	return held{turn}, nil
}

// held is the lock of one run of a job.
type held struct{ turn *rule.Turn }

// Unlock implements gocron.Lock. It is called once. The error matches core.ErrLeaseLost if the lease
// was lost while the job ran.
func (h held) Unlock(context.Context) error { return h.turn.End() }
