package main_test

import (
	"flag"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/keyturn/keyturn/core/drivertest/model"
)

var keys = []string{"a", "b", "c"}

// programs draws them. A list of lists gets longer than a list would, and shrinks as well.
func programs() *rapid.Generator[[]model.Step] {
	step := rapid.Custom(func(t *rapid.T) model.Step {
		return model.Random(func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "choice") })
	})
	parts := rapid.SliceOfN(rapid.SliceOfN(step, 0, 20), 1, 12)
	return rapid.Map(parts, func(parts [][]model.Step) []model.Step { return slices.Concat(parts...) })
}

// manyPrograms runs programs on a real server, as many as there is time for.
func manyPrograms(t *testing.T, run func(program []model.Step) error) {
	t.Helper()
	budget := 8 * time.Second
	if testing.Short() {
		budget = 2 * time.Second
	}
	if checks := flag.Lookup("rapid.checks"); checks.Value.String() != checks.DefValue {
		budget = time.Hour // who asks for more gets it
	}
	began, ran, broken := time.Now(), 0, false
	rapid.Check(t, func(rt *rapid.T) {
		program := programs().Draw(rt, "program")
		if !broken && time.Since(began) > budget {
			return // the rest is for a longer run
		}
		ran++
		if err := run(program); err != nil {
			broken = true // making it shorter takes its time
			rt.Fatal(err)
		}
	})
	t.Logf("%d programs", ran)
}
