package rule

import (
	"time"

	"github.com/keyturn/keyturn/core"
)

// Tick has the defaults of a rule for scheduled jobs. A process that finds the
// key held leaves this tick to the other one. The min hold covers what the clocks of processes differ by if
// they follow a time server, and is shorter than the shortest interval of the schedulers, which is 1 s. A job
// may take hours, and few jobs know that their context has ended: a maximum hold would run it a second time
// beside the first.
func Tick() []core.CallOption {
	return []core.CallOption{core.WithFailFast(), core.WithMinHold(500 * time.Millisecond), core.WithMaxHold(core.Forever)}
}
