package scenario

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/proof/bench/fleet"
	"github.com/keyturn/keyturn/proof/bench/server"
	"github.com/keyturn/keyturn/proof/bench/stats"
)

// The scenarios with several processes run this test binary again.
func TestMain(m *testing.M) {
	if fleet.IsChild() {
		os.Exit(Child())
	}
	// With the race detector a process sleeps for a second before it ends.
	os.Setenv("GORACE", "atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	goleak.VerifyTestMain(m)
}

func newEnv(t *testing.T) *Env {
	return &Env{
		Addrs: []string{redistest.Start(t).Addr()},
		Size:  Tiny,
		Cluster: func() (addrs []string, _ error) {
			for _, node := range redistest.StartCluster(t, 3) {
				addrs = append(addrs, node.Addr())
			}
			return addrs, nil
		},
	}
}

// runLonger runs s, and again for twice as long while a system does nothing in time.
func runLonger(t *testing.T, env *Env, s Scenario, progress io.Writer) ([]stats.Row, error) {
	longer := *env
	for {
		rows, err := Run(t.Context(), &longer, []Scenario{s}, progress)
		if !errors.Is(err, errNothing) || longer.Size.Span > 32*env.Size.Span {
			return rows, err
		}
		longer.Size.Span *= 2
	}
}

// Every scenario runs with every one of its systems, and ends in figures.
func TestScenarios(t *testing.T) {
	env := newEnv(t)
	for _, s := range All() {
		t.Run(s.Name, func(t *testing.T) { showsFigures(t, env, s) })
	}
}

// The same on databases. Nothing is measured here, so several may run at a time.
func TestScenariosOnDatabases(t *testing.T) {
	databases := new(server.SQL)
	t.Cleanup(func() { _ = databases.Close() })
	for _, s := range SQL() {
		if testing.Short() && !strings.HasPrefix(s.Name, "sqlite-") {
			continue // the same with another server
		}
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			showsFigures(t, &Env{Database: databases.Database, Size: Tiny}, s)
		})
	}
}

func showsFigures(t *testing.T, env *Env, s Scenario) {
	var progress bytes.Buffer
	rows, err := runLonger(t, env, s, &progress)
	if err != nil {
		t.Fatalf("%v\n%s", err, progress.String())
	}
	seen := make(map[string]bool)
	for _, row := range rows {
		seen[row.System] = true
		if row.Scenario != s.Name || row.Runs != 1 || math.IsNaN(row.Median) || math.IsInf(row.Median, 0) {
			t.Errorf("a row is %+v", row)
		}
		if strings.HasSuffix(row.Unit, "/s") && row.Median <= 0 && s.Name != "held-100k" && !strings.Contains(s.Name, "idle") {
			t.Errorf("nothing was done: %+v", row)
		}
	}
	for _, system := range s.Systems {
		if !seen[system] || !strings.Contains(progress.String(), system) {
			t.Errorf("nothing of %s in\n%s", system, progress.String())
		}
	}
}

func TestRunGoesOnAfterAFailure(t *testing.T) {
	broken := errors.New("broken")
	measure := func(_ context.Context, _ *Env, system string) ([]stats.Sample, error) {
		if system == "bad" {
			return nil, broken
		}
		return []stats.Sample{{Unit: "n", Value: 1}}, nil
	}
	some := []Scenario{{Name: "a", Systems: []string{"bad", "good"}, Measure: measure}}
	size := Tiny
	size.Runs = 3
	var progress bytes.Buffer
	rows, err := Run(t.Context(), &Env{Size: size}, some, &progress)
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "a, bad") {
		t.Errorf("the error is %v", err)
	}
	if len(rows) != 1 || rows[0].System != "good" || rows[0].Runs != 3 {
		t.Errorf("the rows are %v", rows)
	}
}

// Each run begins with another system.
func TestRunTakesTurns(t *testing.T) {
	var order []string
	measure := func(_ context.Context, _ *Env, system string) ([]stats.Sample, error) {
		order = append(order, system)
		return nil, nil
	}
	size := Tiny
	size.Runs = 3
	some := []Scenario{{Name: "a", Systems: []string{"x", "y"}, Measure: measure}}
	if _, err := Run(t.Context(), &Env{Size: size}, some, new(bytes.Buffer)); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(order, ""); got != "xyyxxy" {
		t.Errorf("the order is %s", got)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	measure := func(context.Context, *Env, string) ([]stats.Sample, error) {
		cancel()
		return nil, context.Canceled
	}
	some := []Scenario{{Name: "a", Systems: []string{"x", "y"}, Measure: measure}}
	if _, err := Run(ctx, &Env{Size: Tiny}, some, new(bytes.Buffer)); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
}

func TestPick(t *testing.T) {
	if all, err := Pick(All(), ""); err != nil || len(all) != len(All()) {
		t.Errorf("%d scenarios, %v", len(all), err)
	}
	if two, err := Pick(All(), "echo, grpc"); err != nil || len(two) != 2 || two[0].Name != "echo" || two[1].Name != "grpc" {
		t.Errorf("%v, %v", two, err)
	}
	if _, err := Pick(All(), "echo,none"); err == nil || !strings.Contains(err.Error(), "hot-1proc") {
		t.Errorf("the error of an unknown one is %v", err)
	}
}

func TestLoadStopsAtTheFirstError(t *testing.T) {
	broken := errors.New("broken")
	_, err := load{callers: 4, span: time.Hour}.run(t.Context(), func(ctx context.Context, i int) (time.Duration, error) {
		if i == 0 {
			return 0, broken
		}
		<-ctx.Done()
		return 0, ctx.Err()
	})
	if !errors.Is(err, broken) {
		t.Errorf("the error is %v", err)
	}
}

func TestChildRefusesWhatItDoesNotKnow(t *testing.T) {
	orders := make(chan json.RawMessage, 2)
	orders <- json.RawMessage(`{"System":"none"}`)
	if err := serve(t.Context(), orders, func(any) error { return nil }); err == nil {
		t.Error("it serves an unknown system")
	}
	if _, err := new(child).obey(t.Context(), "dance"); err == nil {
		t.Error("it obeys an unknown order")
	}
}
