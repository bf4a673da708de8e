package trial

import (
	"errors"
	"testing"
	"time"

	"github.com/keyturn/keyturn/proof/work"
)

// TestAFaultThatCouldNotStrike: nodes that got no time replaced each other, so slots could not be
// moved from the node that had had them. That is not the store's fault.
func TestAFaultThatCouldNotStrike(t *testing.T) {
	late := errors.New("migrate of 3 slots: not the owner")
	for _, system := range []string{keyturn, "redsync"} {
		tr := &trial{Config: Config{Topology: "cluster", System: system, Lasts: time.Second}, registers: &work.Registers{}}
		r := tr.report(material{errs: []error{late}})
		if r.Wrong != nil || !errors.Is(r.Little, late) {
			t.Errorf("%s: wrong: %v; too little: %v", system, r.Wrong, r.Little)
		}
	}
}
