package rule

import (
	"time"

	"github.com/keyturn/keyturn/core"
)

// TickHold is the least time for which a rule for scheduled jobs keeps its key. It covers what the
// clocks of processes differ by if they follow a time server, and is shorter than the shortest
// interval of the schedulers, which is 1 s.
const TickHold = 500 * time.Millisecond

// Tick is the level of options below those of a rule for scheduled jobs. A process that finds the
// key held leaves this tick to the other one. A job may take hours, and few jobs know that their
// context has ended: a maximum hold would run it a second time beside the first.
func Tick() []core.CallOption {
	return []core.CallOption{core.WithFailFast(), core.WithMinHold(TickHold), core.WithMaxHold(core.Forever)}
}

// WarnOfTicks logs, at start, that a rule for scheduled jobs keeps its key for longer than it asks
// for, because its store has no shorter leases. Runs of a schedule that comes sooner are left out.
func (r *Rule[R]) WarnOfTicks() {
	least := r.engine.Describe().TTLs.Nearest(TickHold)
	if r.info.MinHold == least && least > TickHold {
		r.engine.Logger().Warn("keyturn: the store keeps a scheduled job's key for longer than the job asks for, so ticks that come sooner are left out",
			"rule", r.Name, "least_hold", least)
	}
}
