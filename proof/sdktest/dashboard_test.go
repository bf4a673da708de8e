package sdktest

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/author"
	"github.com/keyturn/keyturn/core/coverage"
	"github.com/keyturn/keyturn/core/observe"
	"github.com/keyturn/keyturn/store/memstore"
)

// inPrometheus measures something of everything and returns the labels of each
// metric, by the names that Prometheus has them under.
func inPrometheus(t *testing.T) map[string]map[string]bool {
	t.Helper()
	o, registry := scraped(t)
	obs, eng := o.obs, o.engine(t, memstore.New())
	rule, ctx := core.WithRule("set-status"), context.Background()
	lease, err := eng.Acquire(ctx, "k", rule)
	must(t, err)
	_, err = eng.TryAcquire(ctx, "k", rule)
	want(t, err, core.ErrHeld)
	waiting, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	_, err = eng.Acquire(waiting, "k", rule)
	want(t, err, context.DeadlineExceeded)
	obs.Renewed(seen{lease}, time.Second, nil)
	var handed sync.WaitGroup
	handed.Go(func() {
		want(t, eng.Do(ctx, "k2", func(context.Context) error {
			handed.Go(func() { want(t, eng.Do(ctx, "k2", func(context.Context) error { return nil }, rule), nil) })
			await(t, "another to stand in line", func() bool {
				return scrape(t, registry)["keyturn_conflicts_total exclusive set-status memory"] == 3
			})
			return nil
		}, rule), nil)
	})
	handed.Wait()
	_, err = eng.ForceRelease(ctx, "k", "for a test")
	must(t, err)
	want(t, lease.Release(ctx), core.ErrLeaseLost)
	for range 2 {
		_, err = eng.Once(ctx, "once", func(context.Context) ([]byte, error) { return nil, nil }, rule)
		must(t, err)
	}
	policy, err := core.NewPolicy(rule)
	must(t, err)
	author.Skipped(ctx, eng, policy, coverage.SkipHeld)
	down := &core.UnavailableError{Op: "acquire"}
	obs.Unlocked(ctx, observe.Acquisition{Claims: lease.Claims(), Rule: "set-status", Store: "memory"}, down)
	obs.StoreCalled("memory", "acquire", time.Second, down)
	obs.Owed(ctx, observe.Debt{Claims: lease.Claims(), Rule: "set-status", Store: "memory", State: observe.DebtOwed})
	obs.Lingered(observe.Linger{Claims: lease.Claims(), Rule: "set-status", Store: "memory", State: observe.LingerBegun})
	obs.StoreImpaired("memory", down)

	families, err := registry.Gather()
	must(t, err)
	labels := make(map[string]map[string]bool)
	for _, f := range families {
		of := make(map[string]bool)
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				of[l.GetName()] = true
			}
		}
		if strings.Contains(f.GetType().String(), "HISTOGRAM") {
			labels[f.GetName()+"_sum"], labels[f.GetName()+"_count"] = of, of
			of["le"] = true
			labels[f.GetName()+"_bucket"] = of
			continue
		}
		labels[f.GetName()] = of
	}
	return labels
}

// asks checks that an expression asks for metrics that there are, and for labels of theirs. It returns the metrics.
func asks(t *testing.T, there map[string]map[string]bool, where, expr string) (metrics []string) {
	t.Helper()
	labels := map[string]bool{"keyturn_shadow": true} // which inPrometheus has no rule with
	names := regexp.MustCompile(`\b(keyturn_\w+|error_type|le)\b`).FindAllString(expr, -1)
	for _, n := range names {
		if there[n] != nil {
			metrics = append(metrics, n)
			maps.Copy(labels, there[n])
		}
	}
	for _, n := range names {
		check(t, there[n] != nil || labels[n], "%s: no metric and no label of it: %s", where, n)
	}
	check(t, metrics != nil, "%s: no metric of keyturn in %s", where, expr)
	return metrics
}

// TestDashboardAsksForWhatThereIs: a panel that asks for a name that nobody has
// stays empty, which looks like peace.
func TestDashboardAsksForWhatThereIs(t *testing.T) {
	text, err := os.ReadFile("../../deploy/grafana/keyturn.json")
	must(t, err)
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
		Templating struct {
			List []struct{ Query any }
		}
	}
	must(t, json.Unmarshal(text, &dashboard))
	there := inPrometheus(t)
	asked := make(map[string]bool)
	look := func(where, expr string) {
		t.Helper()
		for _, metric := range asks(t, there, where, expr) {
			asked[metric] = true
		}
	}
	for _, p := range dashboard.Panels {
		check(t, len(p.Targets) != 0, "%s asks for nothing", p.Title)
		for _, target := range p.Targets {
			look(p.Title, target.Expr)
			check(t, strings.Contains(target.Expr, `keyturn_store=~"$store"`), "%s mixes the stores: %s", p.Title, target.Expr)
		}
	}
	for i, choice := range map[int]string{1: "rule", 2: "store"} {
		if q, ok := dashboard.Templating.List[i].Query.(map[string]any); ok {
			look("the choice of a "+choice, q["query"].(string))
		} else {
			t.Errorf("no query for the choice of a %s", choice)
		}
	}
	// And every metric is to be seen somewhere.
	for name := range there {
		base := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_sum"), "_count")
		check(t, !strings.HasPrefix(name, "keyturn_") || asked[name] || asked[base+"_bucket"] || asked[base+"_count"], "no panel shows %s", name)
	}
}

// TestAlertsAskForWhatThereIs: an alert on a name that nobody has never fires. Each alert has a section
// in the runbook, and each section an alert.
func TestAlertsAskForWhatThereIs(t *testing.T) {
	rules, err := os.ReadFile("../../deploy/prometheus/keyturn.rules.yml")
	must(t, err)
	runbook, err := os.ReadFile("../../docs/runbook.md")
	must(t, err)
	there := inPrometheus(t)
	sections := make(map[string]bool)
	for _, s := range regexp.MustCompile(`(?m)^## (\w+)$`).FindAllStringSubmatch(string(runbook), -1) {
		sections[s[1]] = true
	}
	blocks := strings.Split(string(rules), "- alert: ")[1:]
	check(t, len(blocks) >= 5, "%d alerts", len(blocks))
	for _, block := range blocks {
		name, rest, _ := strings.Cut(block, "\n")
		check(t, sections[name] && strings.Contains(rest, "runbook: docs/runbook.md#"+strings.ToLower(name)+"\n"), "%s: the runbook has no section of that name, or the rule does not name it", name)
		delete(sections, name)
		expr, _, _ := strings.Cut(rest, "labels:")
		if !strings.Contains(expr, "node_timex_offset_seconds") {
			asks(t, there, name, expr)
		}
	}
	for name := range sections {
		t.Errorf("there is no alert %s", name)
	}
}
