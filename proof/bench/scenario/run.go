package scenario

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/keyturn/keyturn/proof/bench/stats"
)

// How long a measurement may take before it is given up, because a lock library may wait for
// ever. Scenarios that run once have very many keys.
const (
	stuck     = 2 * time.Minute
	stuckOnce = 10 * time.Minute
)

// Run measures scenarios. It returns what it measured even if some of it failed, and reports
// its progress on progress.
//
// Systems take turns: a run of each, then the next run of each, beginning with another one. So
// other activity on the machine affects all of them.
func Run(ctx context.Context, env *Env, scenarios []Scenario, progress io.Writer) (rows stats.Rows, err error) {
	for _, s := range scenarios {
		fmt.Fprintf(progress, "%s: %s\n", s.Name, s.About)
		runs, bound := env.size.Runs, stuck
		if s.Once {
			runs, bound = 1, stuckOnce
		}
		for run := range runs {
			for i := range s.Systems {
				system := s.Systems[(run+i)%len(s.Systems)]
				samples, failed := s.measure(ctx, env, system, bound)
				if ctx.Err() != nil {
					return rows, errors.Join(err, ctx.Err())
				}
				if failed != nil {
					failed = fmt.Errorf("%s, %s: %w", s.Name, system, failed)
					fmt.Fprintln(progress, "  failed:", failed)
					err = errors.Join(err, failed)
					continue
				}
				rows.Add(s.Name, system, samples...)
				fmt.Fprintf(progress, "  run %d of %d  %-12s", run+1, runs, system)
				for _, sample := range samples {
					fmt.Fprintf(progress, "  %v", sample)
				}
				fmt.Fprintln(progress)
			}
		}
	}
	return rows, err
}

func (s Scenario) measure(ctx context.Context, env *Env, system string, bound time.Duration) (_ []stats.Sample, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, bound, errors.New("it is stuck"))
	defer cancel()
	p, leave, err := env.place(ctx, s.On)
	if err != nil {
		return nil, err
	}
	defer closing(&err, leave)
	samples, err := s.Measure(ctx, p, system)
	if ctx.Err() != nil {
		err = errors.Join(context.Cause(ctx), err)
	}
	return samples, err
}

// closing adds the error of an end to err: a benchmark whose end fails has measured something
// else.
func closing(err *error, end func() error) {
	if failed := end(); failed != nil {
		*err = errors.Join(*err, fmt.Errorf("close: %w", failed))
	}
}
