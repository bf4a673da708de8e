package main

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/keyturn/keyturn/proof/bench/fleet"
	"github.com/keyturn/keyturn/proof/bench/scenario"
)

func TestMain(m *testing.M) {
	if fleet.IsChild() {
		os.Exit(scenario.Child())
	}
	goleak.VerifyTestMain(m)
}

func TestParse(t *testing.T) {
	o, err := parse([]string{"-quick", "-scenario", "echo", "-sql", "-plot", "x.svg"}, new(bytes.Buffer))
	want := options{size: scenario.Quick, names: "echo", sql: true, plot: "x.svg"}
	if err != nil || o != want {
		t.Errorf("%+v, %v", o, err)
	}
	if o, err := parse(nil, new(bytes.Buffer)); err != nil || o.size != scenario.Full {
		t.Errorf("without flags: %+v, %v", o, err)
	}
	if o, err := parse([]string{"-ladder", "-ratios"}, new(bytes.Buffer)); err != nil || !o.ladder || !o.ratios {
		t.Errorf("with flags: %+v, %v", o, err)
	}
	if o, err := parse([]string{"-ladder", "-systems", "keyturn"}, new(bytes.Buffer)); err != nil || !o.ladder || o.systems != "keyturn" {
		t.Errorf("with flags: %+v, %v", o, err)
	}
	if _, err := parse([]string{"echo"}, new(bytes.Buffer)); err == nil || !strings.Contains(err.Error(), "echo") {
		t.Errorf("the error of an argument is %v", err)
	}
	if _, err := parse([]string{"-h"}, new(bytes.Buffer)); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("the error of -h is %v", err)
	}
}

// From flags to rows, with a server of its own.
func TestRunPrintsRows(t *testing.T) {
	var out, progress bytes.Buffer
	if err := run(t.Context(), []string{"-quick", "-scenario", "grpc"}, &out, &progress); err != nil {
		t.Fatalf("%v\n%s", err, progress.String())
	}
	if !strings.Contains(out.String(), "allocations added") {
		t.Errorf("printed %s", out.String())
	}
	if !strings.Contains(progress.String(), "run 1 of 2") {
		t.Errorf("the progress is %q", progress.String())
	}
}

func TestRunRefusesUnknownScenarios(t *testing.T) {
	if err := run(t.Context(), []string{"-scenario", "none"}, new(bytes.Buffer), new(bytes.Buffer)); err == nil {
		t.Error("no error")
	}
	if err := run(t.Context(), []string{"-systems", "nobody"}, new(bytes.Buffer), new(bytes.Buffer)); err == nil {
		t.Error("no error of a system")
	}
}
