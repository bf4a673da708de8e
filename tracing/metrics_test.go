package tracing_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/author"
	"github.com/keyturn/keyturn/core/coverage"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/observe"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/tracing"
	"github.com/keyturn/keyturn/tracing/semconv"
)

// measured is what was measured of everything: the attributes of each metric, and its kind.
func measured(t *testing.T) (attrs map[string]map[string]bool, kinds map[string]instrument) {
	t.Helper()
	attrs = make(map[string]map[string]bool)
	for _, s := range everything(t) {
		kinds = s.meter.kinds
		for metric, series := range s.meter.numbers {
			if attrs[metric] == nil {
				attrs[metric] = make(map[string]bool)
			}
			for labels := range series {
				for l := range strings.FieldsSeq(labels) {
					attr, _, _ := strings.Cut(l, "=")
					attrs[metric][attr] = true
				}
			}
		}
	}
	return attrs, kinds
}

// TestMetricsAreAsDocumented holds the table in docs/observability.md against
// the instruments, and against what is measured.
func TestMetricsAreAsDocumented(t *testing.T) {
	page, err := os.ReadFile("../docs/observability.md")
	must(t, err)
	attrs, kinds := measured(t)
	documented, real := pairs{}, pairs{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(keyturn[^`]*)` \\| (\\w+) \\| `([^`]*)` \\| ([^|]*) \\| ([^|]*) \\|$").FindAllStringSubmatch(string(page), -1) {
		name, kind, unit, about, labels := row[1], row[2], row[3], row[4], row[5]
		documented.add(name, fmt.Sprint(kind, " in ", unit, ": ", about))
		for label := range strings.SplitSeq(labels, ", ") {
			if label != "-" {
				documented.add(name, strings.Trim(label, "`"))
			}
		}
	}
	for name, i := range kinds {
		real.add(name, fmt.Sprint(i.kind, " in ", i.unit, ": ", i.about))
		for attr := range attrs[name] {
			real.add(name, attr)
		}
		check(t, len(attrs[name]) != 0, "%s: nothing was measured in any play", name)
	}
	same(t, "metrics", documented, real)

	same(t, "names", of(constants(t, "semconv/metrics.go", "^Metric")), of(slices.Collect(maps.Keys(kinds))))
}

// TestMetricsTellNoSecrets: nothing of a key, not even its hash.
func TestMetricsTellNoSecrets(t *testing.T) {
	allowed := regexp.MustCompile(`^(keyturn\.(rule|shadow|mode|store|outcome|loss_reason|operation)|error\.type)=[\w/.]+$`)
	for _, s := range everything(t) {
		for metric, series := range s.meter.numbers {
			for labels := range series {
				for label := range strings.FieldsSeq(labels) {
					check(t, allowed.MatchString(label) && !strings.Contains(label, "42"), "%s has the label %s", metric, label)
				}
			}
		}
	}
}

// TestMetricsNeedNoSpans: they count what no sampler took.
func TestMetricsNeedNoSpans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, tracing.WithTracerProvider(tracenoop.NewTracerProvider()))
		plays["blocked"](s)
		s.finish()
		want, err := os.ReadFile("testdata/blocked.txt")
		must(t, err)
		got := s.meter.text()
		check(t, got != "" && strings.HasSuffix(string(want), "\n"+got), "measured\n%s", got)
	})
}

func TestStoreErrors(t *testing.T) {
	odd := errors.New("odd")
	for _, tt := range []struct {
		op   string
		err  error
		want string
	}{
		{"acquire", nil, ""},
		{"acquire", &core.HeldError{Key: key}, ""},
		{"acquire", context.Canceled, ""},
		{"acquire", context.DeadlineExceeded, ""},
		{"acquire", errDown, semconv.ErrorUnavailable},
		{"acquire", core.ErrClosed, semconv.ErrorClosed},
		{"acquire", odd, semconv.ErrorOther},
		{"renew", context.DeadlineExceeded, semconv.ErrorUnavailable},
		{"renew", errors.Join(nil, odd), semconv.ErrorOther},
		{"renew", errors.Join(odd, &core.LeaseLostError{Key: key}), semconv.ErrorLeaseLost},
		{"release", context.Canceled, semconv.ErrorUnavailable},
		{"complete", errDown, semconv.ErrorUnavailable},
		{"inspect", context.Canceled, ""},
	} {
		m := newMeter()
		newHooks(t, tracing.WithMeterProvider(m)).StoreCalled("memory", tt.op, 1500*time.Millisecond, tt.err)
		want := "keyturn.operation=" + tt.op + " keyturn.store=memory"
		if tt.want != "" {
			want = "error.type=" + tt.want + " " + want
		}
		got := m.numbers[semconv.MetricStore][want]
		check(t, slices.Equal(got, []float64{1.5}), "%s, %v: measured %v, want %s", tt.op, tt.err, m.numbers, want)
	}
}

func TestLossReasonsAreBounded(t *testing.T) {
	for reason, label := range map[driver.LossReason]string{
		driver.LossExpired: "expired", driver.LossTaken: "taken", driver.LossMaxHold: "max_hold", driver.LossSuspended: "suspended",
		driver.LossClosed: "closed", driver.LossOuter: "outer", driver.LossForced: "forced", "what user:status:42 did": "_OTHER",
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newScene(t)
			lease, err := s.eng.Acquire(s.ctx, key)
			s.want(err, nil)
			s.obs.HoldEnd(lease.Context(), seen{lease}, &core.LeaseLostError{Key: key, Reason: reason, Detail: "user 42 hangs"})
			s.want(lease.Release(s.ctx), nil) // a second end, which is this test's fault
			s.want(s.eng.Close(context.Background()), nil)
			n := len(s.meter.numbers[semconv.MetricLosses]["keyturn.loss_reason="+label+" keyturn.mode=exclusive keyturn.store=memory"])
			check(t, n == 1, "%s: measured %v", reason, s.meter.numbers[semconv.MetricLosses])
			got := s.rec.named(semconv.SpanHold)[0].attrs[semconv.LossReasonKey].AsString()
			check(t, got == label, "%s: %q on the span", reason, got)
		})
	}
}

func TestMeterProvidersErrorIsTold(t *testing.T) {
	m := newMeter()
	m.refuses = true
	hooks, err := tracing.New(tracing.WithMeterProvider(m))
	check(t, hooks.AcquireStart == nil && errors.Is(err, errKind("counter")) && errors.Is(err, errKind("gauge")) && errors.Is(err, errKind("histogram")), "New gave %+v, %v", hooks, err)
}

// A rule that is declared while nobody measures begins as soon as something is
// measured of it, with all that its declaration said; and each series begins once.
func TestSeriesBeginWhenSomebodyMeasures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		policy, err := core.NewPolicy(core.WithRule("deliver"), core.WithRunUnlocked())
		s.want(err, nil)
		s.meter.off = func(string) bool { return true }
		s.want(checktest.ErrorOf(author.Declare(s.eng, author.Rule{Policy: policy, About: coverage.Rule{Once: true, Skips: coverage.SkipHeld}, Like: []string{"k"}})), nil)
		s.want(s.eng.Do(s.ctx, key, s.work(0), policy), nil)
		check(t, len(s.meter.begun)+len(s.meter.numbers) <= 0, "begun while nobody measures: %v, %v", s.meter.begun, s.meter.numbers)
		s.meter.off = nil
		s.obs.Declared(observe.Declaration{Rule: "without claims, so of nothing"})
		for range 3 {
			s.want(s.eng.Do(s.ctx, key, s.work(0), policy), nil)
		}
		want := map[string]int{
			semconv.MetricConflicts: 1, semconv.MetricLosses: 8, semconv.MetricRenewals: 4, semconv.MetricDuplicates: 1,
			semconv.MetricSkipped: 1, semconv.MetricUnanswered: 4, semconv.MetricUnlocked: 1, semconv.MetricForced: 2,
		}
		for name, n := range want {
			check(t, s.meter.begun[name] == n, "%s: %d series were begun, want %d", name, s.meter.begun[name], n)
		}
		check(t, len(s.meter.begun) == len(want), "begun: %v", s.meter.begun)

		later, err := core.NewPolicy(core.WithRule("declared after it was measured"))
		s.want(err, nil)
		s.want(s.eng.Do(s.ctx, key, s.work(0), later), nil)
		s.want(checktest.ErrorOf(author.Declare(s.eng, author.Rule{Policy: later, About: coverage.Rule{Skips: coverage.SkipHeld}, Like: []string{"k"}})), nil)
		check(t, s.meter.begun[semconv.MetricSkipped] == 2, "begun: %v", s.meter.begun)
		s.finish()
	})
}
