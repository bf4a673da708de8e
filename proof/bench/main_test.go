package main

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/keyturn/keyturn/proof/bench/scenario"
)

func TestMain(m *testing.M) {
	if scenario.IsChild() {
		os.Exit(scenario.Child())
	}
	goleak.VerifyTestMain(m)
}

// From flags to rows and a chart, with a server of its own.
func TestRun(t *testing.T) {
	chart := filepath.Join(t.TempDir(), "ladder.svg")
	for args, want := range map[string]string{
		"-quick -ladder -scenario ladder-1,ladder-2 -systems keyturn,redsync":                        "keyturn is",
		"-quick -ladder -scenario ladder-1,ladder-2 -systems keyturn,redsync -ratios -plot " + chart: "| server CPU µs (less) | redsync |",
		"-quick -scenario handover -systems keyturn,redsync -ratios":                                 "| `handover` | p50 µs (less) |",
		"-quick -sql -scenario sqlite-1 -systems keyturn,insert-delete -ratios":                      "| `sqlite-1` | pairs/s |",
	} {
		var out, progress bytes.Buffer
		if err := run(t.Context(), strings.Fields(args), &out, &progress); err != nil {
			t.Fatalf("%s: %v\n%s", args, err, progress.String())
		}
		if !strings.Contains(out.String(), want) || !strings.Contains(progress.String(), "run 1 of 2") {
			t.Errorf("%s printed %s and %s", args, out.String(), progress.String())
		}
	}
	if _, err := os.Stat(chart); err != nil {
		t.Error(err)
	}
}

func TestRunRefuses(t *testing.T) {
	for args, want := range map[string]string{"-scenario none": "none", "-systems nobody": "nobody", "echo": "echo"} {
		if err := run(t.Context(), strings.Fields(args), new(bytes.Buffer), new(bytes.Buffer)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error of %s is %v", args, err)
		}
	}
	var help bytes.Buffer
	if err := run(t.Context(), []string{"-h"}, &help, &help); !errors.Is(err, flag.ErrHelp) || !strings.Contains(help.String(), "-ladder") {
		t.Errorf("-h prints %q, %v", help.String(), err)
	}
}
