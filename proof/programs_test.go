package main_test

import (
	"slices"

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
