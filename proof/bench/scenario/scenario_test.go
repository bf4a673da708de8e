package scenario

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/proof/bench/lock"
	"github.com/keyturn/keyturn/proof/bench/stats"
)

var check = checktest.That

// The scenarios with several processes run this test binary again.
func TestMain(m *testing.M) {
	if IsChild() {
		os.Exit(Child())
	}
	// With the race detector a process sleeps for a second before it ends.
	os.Setenv("GORACE", "atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	goleak.VerifyTestMain(m)
}

func newEnv(t *testing.T) *Env {
	env := NewEnv(Tiny)
	t.Cleanup(func() {
		if err := env.Close(); err != nil {
			t.Error(err)
		}
	})
	return env
}

// Every scenario runs with every one of its systems, and ends in figures.
func TestScenarios(t *testing.T) {
	env := newEnv(t)
	for _, s := range slices.Concat(All(), SQL()) {
		if testing.Short() && s.On != lock.SQLite {
			continue // what is measured elsewhere takes its time
		}
		t.Run(s.Name, func(t *testing.T) {
			var progress bytes.Buffer
			rows, err := runLonger(t, env, s, &progress)
			if err != nil {
				t.Fatalf("%v\n%s", err, progress.String())
			}
			for _, row := range rows {
				if v := row.Median(); row.Scenario != s.Name || len(row.Values) != 1 || math.IsNaN(v) || math.IsInf(v, 0) || strings.HasSuffix(row.Unit, "/s") && v <= 0 {
					t.Errorf("a row is %+v", row)
				}
			}
			for _, system := range s.Systems {
				check(t, slices.ContainsFunc(rows, func(r stats.Row) bool { return r.System == system }) && strings.Contains(progress.String(), system), "nothing of %s in\n%s", system, progress.String())
			}
		})
	}
}

// runLonger runs s, and again for twice as long while a system does nothing in time.
func runLonger(t *testing.T, env *Env, s Scenario, progress io.Writer) (stats.Rows, error) {
	defer func(size Size) { env.size = size }(env.size)
	for {
		rows, err := Run(t.Context(), env, []Scenario{s}, progress)
		if !errors.Is(err, errNothing) || env.size.Span > 32*Tiny.Span {
			return rows, err
		}
		env.size.Span *= 2
	}
}

// Each run begins with another system, and the others go on after one has failed.
func TestRunTakesTurns(t *testing.T) {
	env := newEnv(t)
	env.size.Runs = 3
	broken := errors.New("broken")
	var order string
	s := Scenario{Name: "a", Systems: []string{"x", "y"}, On: lock.SQLite, Measure: func(_ context.Context, _ *place, system string) ([]stats.Sample, error) {
		order += system
		if system == "x" {
			return nil, broken
		}
		return []stats.Sample{{Unit: "n", Value: 1}}, nil
	}}
	rows, err := Run(t.Context(), env, []Scenario{s}, new(bytes.Buffer))
	check(t, errors.Is(err, broken) && strings.Contains(err.Error(), "a, x"), "the error is %v", err)
	check(t, order == "xyyxxy" && len(rows) == 1 && rows[0].System == "y" && len(rows[0].Values) == 3, "the order is %s, the rows are %v", order, rows)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, env, []Scenario{s}, new(bytes.Buffer)); !errors.Is(err, context.Canceled) {
		t.Errorf("the error of a cancelled run is %v", err)
	}
}

func TestPick(t *testing.T) {
	if all, err := Pick(All(), "", ""); err != nil || len(all) != len(All()) {
		t.Errorf("%d scenarios, %v", len(all), err)
	}
	two, err := Pick(All(), "handover,once-64", "redsync,keyturn")
	check(t, err == nil && len(two) == 2 && two[0].Name == "handover" && strings.Join(two[1].Systems, ",") == "keyturn,redsync", "%v, %v", two, err)
	one, err := Pick(All(), "", "redsync+mutex")
	check(t, err == nil && len(one) == 1 && one[0].Name == "hot-1proc", "%v, %v", one, err)
}

// Warming up does not count, and the first error ends all goroutines.
func TestLoad(t *testing.T) {
	did, err := Load{4, 200 * time.Millisecond, 100 * time.Millisecond}.run(t.Context(), func(context.Context, int) (time.Duration, error) {
		time.Sleep(20 * time.Millisecond)
		return time.Millisecond, nil
	})
	n := did.took.TotalCount()
	check(t, err == nil && n != 0 && n <= 4*6 && did.took.ValueAtQuantile(50)/1e4 == 100, "counted %d, %v", n, err)
	broken := errors.New("broken")
	_, err = Load{Callers: 4, Span: time.Hour}.run(t.Context(), func(ctx context.Context, i int) (time.Duration, error) {
		if i == 0 {
			return 0, broken
		}
		<-ctx.Done()
		return 0, ctx.Err()
	})
	check(t, errors.Is(err, broken), "the error is %v", err)
}

// A child says why it cannot open a system. It ends when its parent closes the connection, as the
// parent's death does, also under way; and with its context.
func TestChildrenEnd(t *testing.T) {
	if _, err := startChildren(t.Context(), lock.Config{System: "none"}, 2); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("the error is %v", err)
	}
	p, leave, err := newEnv(t).place(t.Context(), "")
	checktest.Must(t, err)
	defer leave()
	for _, killed := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		all, err := startChildren(ctx, p.config("keyturn", 1), 1)
		checktest.Must(t, err)
		call := all[0].Go("child.Contend", Load{Callers: 1, Span: time.Hour}, nil, nil)
		if killed {
			cancel()
			<-call.Done // otherwise the end of its input could end it first
		}
		if err := all.Close(); (err != nil) != killed {
			t.Errorf("killed: %v: the error is %v", killed, err)
		}
	}
}
