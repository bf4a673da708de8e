package scenario

import (
	"context"
	"errors"

	"github.com/keyturn/keyturn/proof/bench/fleet"
)

// children are the processes of one measurement.
type children []*fleet.Process

// startChildren starts n of them and waits until each has its locker open.
func startChildren(ctx context.Context, t task, n int) (_ children, err error) {
	var all children
	defer func() {
		if err != nil {
			closing(&err, all)
		}
	}()
	for range n {
		p, err := fleet.Start(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
		if err := p.Send(t); err != nil {
			return nil, err
		}
	}
	for _, p := range all {
		if _, err := hear(p); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Close ends them all.
func (all children) Close() error {
	for _, p := range all { // first, so that all of them end at the same time
		p.AskToEnd()
	}
	var errs []error
	for _, p := range all {
		errs = append(errs, p.Close())
	}
	return errors.Join(errs...)
}

// hear waits for a child's answer.
func hear(p *fleet.Process) (answer, error) {
	var a answer
	if err := p.Receive(&a); err != nil {
		return a, err
	}
	if a.Error != "" {
		return a, errors.New(a.Error)
	}
	return a, nil
}

// runLoads runs the task's load in n processes at the same time.
func runLoads(ctx context.Context, t task, n int) (_ []report, err error) {
	all, err := startChildren(ctx, t, n)
	if err != nil {
		return nil, err
	}
	defer closing(&err, all)
	for _, p := range all {
		if err := p.Send(orderLoad); err != nil {
			return nil, err
		}
	}
	reports := make([]report, n)
	for i, p := range all {
		a, err := hear(p)
		if err != nil {
			return nil, err
		}
		reports[i] = *a.Report
	}
	return reports, nil
}
