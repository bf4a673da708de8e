package who_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/who"
)

var check = checktest.That

func TestOf(t *testing.T) {
	t.Parallel()
	id := strings.Repeat("ab", 16)
	first, second := who.Of("im-7/41/1/t0abcd/"+id), who.Of("im-7/41/1/t0abcd/"+strings.Repeat("cd", 16))
	check(t, first == second && first.Label == "im-7 pid 41" && first.ID == "im-7/41/1/t0abcd" && !first.Foreign, "%+v, %+v", first, second)
	// The number of a process may be used again: in a container it is always the same.
	if again := who.Of("im-7/41/1/t0abce/" + id); again.ID == first.ID || again.Label != first.Label {
		t.Errorf("%+v", again)
	}
	engine := who.Of("im-7/41/2/t0abcd/" + id)
	check(t, engine.Label == "im-7 pid 41 engine 2", "%+v", engine)
	for _, value := range []string{"", "9f2c", `"><script>alert(1)</script>` + strings.Repeat("ü", 100), "a/b/c/d/e"} {
		p := who.Of(value)
		check(t, p.Foreign && p.ID == value && len(p.Label) <= 100, "%+v", p)
	}
}

func TestColours(t *testing.T) {
	t.Parallel()
	var c who.Colours
	used := make(map[int]int)
	for i := range 3 * who.ColourCount {
		p := who.Process{ID: fmt.Sprint(i)}
		colour := c.Of(p)
		used[colour]++
		check(t, c.Of(p) == colour && colour >= 0 && colour < who.ColourCount, "%d: %d, then %d", i, colour, c.Of(p))
		check(t, i >= who.ColourCount || used[colour] <= 1, "the first processes have colours that differ, but %d has %d again", i, colour)
	}
	for i := range 10_000 { // the colours of processes that are gone are forgotten
		c.Of(who.Process{ID: fmt.Sprint("more", i)})
	}
}
