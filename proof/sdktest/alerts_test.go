package sdktest

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

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
	if len(blocks) < 5 {
		t.Errorf("%d alerts", len(blocks))
	}
	for _, block := range blocks {
		name, rest, _ := strings.Cut(block, "\n")
		if !sections[name] || !strings.Contains(rest, "runbook: docs/runbook.md#"+strings.ToLower(name)+"\n") {
			t.Errorf("%s: the runbook has no section of that name, or the rule does not name it", name)
		}
		delete(sections, name)
		expr, _, _ := strings.Cut(rest, "labels:")
		names := regexp.MustCompile(`\bkeyturn_\w+`).FindAllString(expr, -1)
		labels := map[string]bool{"keyturn_shadow": true} // which inPrometheus has no rule with
		metrics := 0
		for _, n := range names {
			for l := range there[n] {
				labels[l] = true
			}
			if there[n] != nil {
				metrics++
			}
		}
		for _, n := range names {
			if there[n] == nil && !labels[n] {
				t.Errorf("%s: no metric and no label of it: %s", name, n)
			}
		}
		if metrics == 0 && !strings.Contains(expr, "node_timex_offset_seconds") {
			t.Errorf("%s asks for no metric of keyturn", name)
		}
	}
	for name := range sections {
		t.Errorf("there is no alert %s", name)
	}
}
