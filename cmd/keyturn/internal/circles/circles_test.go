package circles

import (
	"fmt"
	"maps"
	"slices"
	"testing"
)

func TestOf(t *testing.T) {
	for name, c := range map[string]struct {
		edges map[string][]string
		want  map[string]int
	}{
		"none":          {map[string][]string{"a": {"b"}, "b": {"c"}}, map[string]int{}},
		"itself":        {map[string][]string{"a": {"a"}}, map[string]int{}},
		"two":           {map[string][]string{"a": {"b"}, "b": {"a"}}, map[string]int{"a": 1, "b": 1}},
		"three, behind": {map[string][]string{"a": {"b"}, "b": {"c"}, "c": {"d"}, "d": {"b"}, "e": {"d"}}, map[string]int{"b": 1, "c": 1, "d": 1}},
		"two circles":   {map[string][]string{"a": {"b", "c"}, "b": {"a"}, "c": {"d"}, "d": {"c"}}, map[string]int{"a": 1, "b": 1, "c": 2, "d": 2}},
		"joined":        {map[string][]string{"a": {"b"}, "b": {"a", "c"}, "c": {"b"}}, map[string]int{"a": 1, "b": 1, "c": 1}},
	} {
		nodes := []string{"a", "b", "c", "d", "e"}
		if got := Of(nodes, c.edges); !maps.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	// A long chain that ends in its beginning.
	edges := make(map[string][]string)
	for i := range 10000 {
		edges[fmt.Sprint(i)] = []string{fmt.Sprint((i + 1) % 10000)}
	}
	if got := Of(slices.Sorted(maps.Keys(edges)), edges); len(got) != 10000 || got["77"] != 1 {
		t.Errorf("%d nodes", len(got))
	}
}
