package trial

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/proof/history"
)

// TestPicture: it shows the leases of the key, whose they are, and what struck at that time.
func TestPicture(t *testing.T) {
	const ms = int64(1e6)
	lease := func(process int, key string, given, end int64) history.Section {
		return history.Section{
			Process: process, Claims: []driver.Claim{driver.Exclusive(key)}, Asked: given, Given: given, End: end,
			Returning: end, Answered: end, Shared: history.Never, Taken: history.Never, Told: history.Never, Until: end,
		}
	}
	sections := []history.Section{lease(1, "k", 1000*ms, 1100*ms), lease(2, "k", 1050*ms, 1200*ms), lease(3, "other", 1000*ms, 1100*ms)}
	m := material{struck: []Struck{
		{Fault: "freeze", Place: "a < b", Span: history.Span{From: 1020 * ms, To: 1040 * ms}},
		{Fault: "cut", Place: "far away", Span: history.Span{From: 9000 * ms, To: 9001 * ms}},
	}}
	wrong := history.Check(sections)
	svg := picture(wrong, sections, m)
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
	}
	for word, want := range map[string]int{"process 1<": 1, "process 2<": 1, "process 3<": 0, "freeze of a &lt; b": 1, "far away": 0} {
		if n := strings.Count(svg, word); n != want {
			t.Errorf("%q is in it %d times, want %d:\n%s", word, n, want, svg)
		}
	}
	if picture(errors.New("no key"), sections, m) != "" {
		t.Error("a picture of nothing")
	}
}
