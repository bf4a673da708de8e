package circuit_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A store that is away when a program starts was in the log only after some seconds of failures. The
// first one has a line, and so has the first answer, with or without a circuit that opens.
func TestAStoreThatIsAwayAtStart(t *testing.T) {
	for _, silence := range []time.Duration{0, silence} {
		synctest.Test(t, func(t *testing.T) {
			tr := newTrial(silence, nil)
			_, _ = tr.ask(t.Context(), errDown, "k")
			check(t, len(tr.lines) == 1 && strings.Contains(tr.lines[0], "WARN keyturn: store has not answered yet"), "lines %q", tr.lines)
			for range 20 {
				time.Sleep(time.Second)
				_, _ = tr.ask(t.Context(), errDown, "k")
			}
			time.Sleep(time.Second)
			tr.wantAsked(t, "k")
			check(t, len(tr.lines) == 2 && strings.Contains(tr.lines[1], "INFO keyturn: store answers [after 21s"), "lines %q", tr.lines)
			for range 20 { // from now on only an outage has lines
				_, _ = tr.ask(t.Context(), errDown, "k")
				_, _ = tr.ask(t.Context(), nil, "k")
			}
			check(t, len(tr.lines) == 2, "lines %q", tr.lines)
		})
	}
}
