package coverage_test

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/core/coverage"
	"github.com/keyturn/keyturn/core/driver"
)

func TestCoverage(t *testing.T) {
	all := []coverage.Target{
		{Name: "/im.Groups/Join", Rules: []coverage.Rule{{Key: "group:{group_id}"}}},
		{Name: "/im.Messages/Send", Rules: []coverage.Rule{{Key: "func"}, {Once: true, Key: "msg:{id}"}}},
		{Name: "/im.Groups/List"},
		{Name: "/health/Check"},
		{Name: "PUT /users/:id", Rules: []coverage.Rule{{Key: "user:{path.uid}", Problem: "no such parameter"}}},
	}
	if got, want := coverage.Uncovered(all, "/health/Check", "PUT /users/:id"), []string{"/im.Groups/List", "PUT /users/:id"}; !slices.Equal(got, want) {
		t.Errorf("uncovered %q, want %q", got, want)
	}
	var texts []string
	for _, c := range all {
		texts = append(texts, c.String())
	}
	want := []string{
		"/im.Groups/Join: serialize group:{group_id}",
		"/im.Messages/Send: serialize func, once msg:{id}",
		"/im.Groups/List: none",
		"/health/Check: none",
		"PUT /users/:id: serialize user:{path.uid} (no such parameter)",
	}
	if !slices.Equal(texts, want) {
		t.Errorf("%q", texts)
	}

	var out bytes.Buffer
	coverage.Log(context.Background(), slog.New(slog.NewTextHandler(&out, nil)), all, "/health/Check")
	log := out.String()
	for _, want := range []string{
		`level=INFO msg="keyturn: guarded" target=/im.Groups/Join once=false key=group:{group_id}`,
		`level=INFO msg="keyturn: guarded" target=/im.Messages/Send once=true key=msg:{id}`,
		`level=WARN msg="keyturn: runs without a lock" target=/im.Groups/List`,
		`level=ERROR msg="keyturn: the rule can't work" target="PUT /users/:id" once=false key=user:{path.uid} problem="no such parameter"`,
	} {
		if !strings.Contains(log, want) {
			t.Errorf("%q is missing in\n%s", want, log)
		}
	}
	if strings.Contains(log, "/health/Check") {
		t.Errorf("the log warns of an exception:\n%s", log)
	}
	coverage.Log(context.Background(), nil, nil)
}

func TestRuleNamesAnUnusualMode(t *testing.T) {
	rules := map[string]coverage.Rule{
		"serialize shared k":                       {Key: "k", Mode: driver.ModeShared},
		"serialize permit of 5 k":                  {Key: "k", Mode: driver.ModePermit, Permits: 5},
		"serialize permit of 2 hierarchy k (none)": {Key: "k", Mode: driver.ModePermit, Permits: 2, Hierarchy: true, Problem: "none"},
	}
	for want, r := range rules {
		if got := r.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	coverage.Log(context.Background(), log, []coverage.Target{{Name: "t", Rules: []coverage.Rule{{Key: "k", Mode: driver.ModePermit, Permits: 5, Hierarchy: true}}}})
	if want := "target=t once=false key=k mode=permit permits=5 hierarchy=true"; !strings.Contains(out.String(), want) {
		t.Errorf("%q is missing in\n%s", want, out.String())
	}
}
