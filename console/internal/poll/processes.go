package poll

import (
	"cmp"
	"slices"
	"strings"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/who"
)

// Process is what one process holds and waits for.
type Process struct {
	who.Process
	// Holds are the rows of keys that it holds, the longest held first, at most as many as were asked for.
	// Held is how many there are.
	Holds []*Row
	Held  int
	// Waits are the rows of keys that it waits for, the longest first.
	Waits []*Row
}

// Processes returns the processes, with up to most rows each. The one with the longest wait comes first, then
// the one that holds most.
func (p *Poller) Processes(most int) []Process {
	rows := p.rowsInOrder()
	byID := make(map[string]*Process)
	get := func(id string, of func() who.Process) *Process {
		if byID[id] == nil {
			byID[id] = &Process{Process: of()}
		}
		return byID[id]
	}
	holds := func(one *Process, r *Row) {
		if one.Held++; len(one.Holds) < most {
			one.Holds = append(one.Holds, r)
		}
	}
	for _, r := range rows {
		if r.full == nil {
			holds(get(r.process.Value(), func() who.Process { return who.Of(r.Info().Holders[0].Owner) }), r.Row)
			continue
		}
		for _, h := range r.full.Holders {
			owner := who.Of(h.Owner)
			holds(get(owner.ID, func() who.Process { return owner }), r.Row)
		}
		for _, w := range r.full.Waiters {
			owner := who.Of(w.Owner)
			if one := get(owner.ID, func() who.Process { return owner }); len(one.Waits) < most {
				one.Waits = append(one.Waits, r.Row)
			}
		}
	}
	all := make([]Process, 0, len(byID))
	for _, one := range byID {
		all = append(all, *one)
	}
	slices.SortFunc(all, func(a, b Process) int {
		return cmp.Or(cmp.Compare(a.waits(), b.waits()), cmp.Compare(b.Held, a.Held), strings.Compare(a.ID, b.ID))
	})
	return all
}

// waits is since when the process's longest wait goes on.
func (p Process) waits() int64 {
	if len(p.Waits) == 0 {
		return never
	}
	return newRanked(p.Waits[0]).waits
}

// rowsInOrder returns all rows, in the order of [Poller.Rows].
func (p *Poller) rowsInOrder() []ranked {
	p.mu.Lock()
	all := make([]ranked, 0, len(p.seen.rows))
	for _, r := range p.seen.rows {
		all = append(all, newRanked(r))
	}
	p.mu.Unlock()
	slices.SortFunc(all, before)
	return all
}

// KeysOf returns the other keys that one of these owners holds, in order: an owner has several if it took them as a
// set.
func (p *Poller) KeysOf(owners map[string]bool, but string) []string {
	var keys []string
	for _, r := range p.rowsInOrder() {
		if r.Key != but && slices.ContainsFunc(r.Info().Holders, func(h driver.Holder) bool { return owners[h.Owner] }) {
			keys = append(keys, r.Key)
		}
	}
	slices.Sort(keys)
	return keys
}
