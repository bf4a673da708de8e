package tracing_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/author"
	"github.com/keyturn/keyturn/core/coverage"
	"github.com/keyturn/keyturn/core/observe"
	"github.com/keyturn/keyturn/tracing/semconv"
)

// A rule that is declared while nobody measures begins as soon as something is
// measured of it, with all that its declaration said; and each series begins once.
func TestSeriesBeginWhenSomebodyMeasures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		policy, err := core.NewPolicy(core.WithRule("deliver"), core.WithRunUnlocked())
		s.want(err, nil)
		s.meter.off = func(string) bool { return true }
		_, err = author.Declare(s.eng, author.Rule{Policy: policy, About: coverage.Rule{Once: true, Skips: coverage.SkipHeld}, Like: []string{"k"}})
		s.want(err, nil)
		s.want(s.eng.Do(s.ctx, key, s.work(0), policy), nil)
		if len(s.meter.begun) > 0 {
			t.Errorf("begun while nobody measures: %v", s.meter.begun)
		}
		s.meter.off = nil
		for range 3 {
			s.want(s.eng.Do(s.ctx, key, s.work(0), policy), nil)
		}
		want := map[string]int{
			semconv.MetricConflicts: 1, semconv.MetricLosses: 8, semconv.MetricRenewals: 4, semconv.MetricDuplicates: 1,
			semconv.MetricSkipped: 1, semconv.MetricUnanswered: 4, semconv.MetricUnlocked: 1, semconv.MetricForced: 2,
		}
		for name, n := range want {
			if s.meter.begun[name] != n {
				t.Errorf("%s: %d series were begun, want %d", name, s.meter.begun[name], n)
			}
		}
		if len(s.meter.begun) != len(want) {
			t.Errorf("begun: %v", s.meter.begun)
		}
		s.finish()
	})
}

// A declaration without claims is of nothing.
func TestDeclarationOfNothing(t *testing.T) {
	s := newScene(t)
	s.obs.Declared(observe.Declaration{Rule: "x"})
	s.want(s.eng.Close(context.Background()), nil)
	if len(s.meter.begun) > 0 {
		t.Errorf("begun: %v", s.meter.begun)
	}
}
