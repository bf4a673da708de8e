package coverage_test

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/core/coverage"
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
