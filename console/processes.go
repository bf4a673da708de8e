package console

import (
	"html/template"
	"time"

	"github.com/keyturn/keyturn/console/internal/poll"
	"github.com/keyturn/keyturn/internal/who"
)

const (
	processesShown = 200
	keysShown      = 12 // of each process
)

type processModel struct {
	ID      string
	Process who.Process
	Holds   []processKey
	More    int
	Waits   []processKey
}

type processKey struct {
	Key string
	For template.HTML
}

func (c *Console) processes(l look) []list {
	all := c.poll.Processes(keysShown)
	hidden := max(0, len(all)-processesShown)
	var parts []part
	for _, p := range all[:len(all)-hidden] {
		m := processModel{ID: elementID("process", p.ID), Process: p.Process, More: p.Held - len(p.Holds)}
		for _, r := range p.Holds {
			m.Holds = append(m.Holds, processKey{r.Key, l.clock.since(r.At().Add(-r.HeldFor()))})
		}
		for _, r := range p.Waits {
			m.Waits = append(m.Waits, processKey{r.Key, l.clock.since(r.At().Add(-waitOf(r, p.ID)))})
		}
		parts = append(parts, part{ID: m.ID, HTML: c.write("process", m)})
	}
	return []list{{"processes", parts}, {"foot", []part{{ID: "count", HTML: c.write("processes-foot", hidden)}}}}
}

// waitOf is how long the process has waited for the key.
func waitOf(r *poll.Row, process string) (d time.Duration) {
	for _, w := range r.Info().Waiters {
		if who.Of(w.Owner).ID == process {
			d = max(d, w.Waited)
		}
	}
	return d
}
