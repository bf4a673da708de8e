package scenario

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
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
func Run(ctx context.Context, env *Env, scenarios []Scenario, progress io.Writer) ([]stats.Row, error) {
	var rows stats.Rows
	var errs []error
	for _, s := range scenarios {
		fmt.Fprintf(progress, "%s: %s\n", s.Name, s.About)
		runs := env.Size.Runs
		if s.Once {
			runs = 1
		}
		for run := range runs {
			for i := range s.Systems {
				system := s.Systems[(run+i)%len(s.Systems)]
				samples, err := s.measure(ctx, env, system)
				if ctx.Err() != nil {
					return rows.Summary(), errors.Join(append(errs, ctx.Err())...)
				}
				if err != nil {
					err = fmt.Errorf("%s, %s: %w", s.Name, system, err)
					fmt.Fprintln(progress, "  failed:", err)
					errs = append(errs, err)
					continue
				}
				fmt.Fprintf(progress, "  run %d of %d  %-12s%s\n", run+1, runs, system, say(samples))
				rows.Add(s.Name, system, samples...)
			}
		}
	}
	return inOrder(rows.Summary(), scenarios), errors.Join(errs...)
}

// measure bounds a measurement.
func (s Scenario) measure(ctx context.Context, env *Env, system string) ([]stats.Sample, error) {
	bound := stuck
	if s.Once {
		bound = stuckOnce
	}
	ctx, cancel := context.WithTimeoutCause(ctx, bound, errors.New("it is stuck"))
	defer cancel()
	if s.Cluster {
		var err error
		if env, err = env.onCluster(); err != nil {
			return nil, err
		}
	}
	samples, err := s.Measure(ctx, env, system)
	if ctx.Err() != nil {
		err = errors.Join(context.Cause(ctx), err)
	}
	return samples, err
}

func say(samples []stats.Sample) string {
	var b strings.Builder
	for _, s := range samples {
		fmt.Fprintf(&b, "  %s %s", stats.Figure(s.Value), s.Unit)
	}
	return b.String()
}

// inOrder sorts the rows of a scenario by system. Their order so far depends on what failed.
func inOrder(rows []stats.Row, scenarios []Scenario) []stats.Row {
	place := make(map[[2]string]int)
	for i, s := range scenarios {
		for j, system := range s.Systems {
			place[[2]string{s.Name, system}] = i<<10 + j
		}
	}
	slices.SortStableFunc(rows, func(a, b stats.Row) int {
		return place[[2]string{a.Scenario, a.System}] - place[[2]string{b.Scenario, b.System}]
	})
	return rows
}

// Pick returns the scenarios with these names, separated by commas; "": all.
func Pick(all []Scenario, names string) ([]Scenario, error) {
	if names == "" {
		return all, nil
	}
	var picked []Scenario
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(all, func(s Scenario) bool { return s.Name == strings.TrimSpace(name) })
		if i < 0 {
			var known []string
			for _, s := range all {
				known = append(known, s.Name)
			}
			return nil, fmt.Errorf("no scenario is named %q: there are %s", name, strings.Join(known, ", "))
		}
		picked = append(picked, all[i])
	}
	return picked, nil
}

// With returns the scenarios with only the systems of these names, separated by commas, and
// without the scenarios that have none of them; "": all.
func With(scenarios []Scenario, systems string) ([]Scenario, error) {
	if systems == "" {
		return scenarios, nil
	}
	names := strings.Split(systems, ",")
	var left []Scenario
	for _, s := range scenarios {
		s.Systems = slices.DeleteFunc(slices.Clone(s.Systems), func(name string) bool { return !slices.Contains(names, name) })
		if len(s.Systems) > 0 {
			left = append(left, s)
		}
	}
	if len(left) == 0 {
		return nil, fmt.Errorf("no scenario has a system named %q", systems)
	}
	return left, nil
}
