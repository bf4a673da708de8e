package main

import (
	"cmp"
	"iter"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/keyturn/keyturn/cmd/keyturn/internal/circles"
	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/lockjson"
)

func (a *app) whoCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "who [PREFIX]",
		Short: "List processes: what each holds and waits for, circles first",
		Long: `List processes: what each holds and what it waits for. Processes that wait for each other have the same number
under CIRCLE and come first. That is a hint, not a proof: two requests of one process may have nothing to do with each
other.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withEngine(cmd.Context(), func(eng *core.Engine) error {
				prefix := ""
				if len(args) > 0 {
					prefix = args[0]
				}
				return a.who(eng.List(cmd.Context(), prefix))
			})
		},
		ValidArgsFunction: a.completeKeys,
	}
}

// process is what the locks say of one process. A foreign client is a process of its own.
type processInfo struct {
	Process string        `json:"process"` // host/pid, or a foreign client's text
	Host    string        `json:"host"`
	PID     int           `json:"pid"`
	Circle  int           `json:"circle"` // 0: none
	Holds   []heldKey     `json:"holds"`
	Waits   []waitedForBy `json:"waits"`
}

type heldKey struct {
	Key     string `json:"key"`
	Mode    string `json:"mode"`
	Rule    string `json:"rule"`
	SinceMS *int64 `json:"since_ms"`
	text    string
}

type waitedForBy struct {
	Key      string   `json:"key"`
	Mode     string   `json:"mode"`
	Rule     string   `json:"rule"`
	WaitedMS int64    `json:"waited_ms"`
	Behind   []string `json:"behind"` // the processes that hold the key
	text     string
}

func (a *app) who(locks iter.Seq2[driver.LockInfo, error]) error {
	all, err := processesOf(locks)
	if err != nil {
		return err
	}
	switch a.output {
	case "json":
		_, err := a.json(all)
		return err
	case "jsonl":
		for _, p := range all {
			if err := lockjson.WriteLine(a.stdout, p); err != nil {
				return err
			}
		}
		return nil
	}
	t := a.table("CIRCLE", "PROCESS", "WHAT", "KEY", "MODE", "FOR", "RULE", "BEHIND")
	for _, p := range all {
		circle := ""
		if p.Circle > 0 {
			circle = strconv.Itoa(p.Circle)
		}
		for _, h := range p.Holds {
			t.Row(circle, p.Process, "holds", h.Key, h.Mode, h.text, h.Rule)
		}
		for _, w := range p.Waits {
			behind := ""
			if len(w.Behind) > 0 {
				if behind = w.Behind[0]; len(w.Behind) > 1 {
					behind += " +" + strconv.Itoa(len(w.Behind)-1)
				}
			}
			t.Row(circle, p.Process, "waits", w.Key, w.Mode, w.text, w.Rule, behind)
		}
	}
	return t.Flush()
}

// processesOf turns keys with processes into processes with keys.
func processesOf(locks iter.Seq2[driver.LockInfo, error]) ([]*processInfo, error) {
	byName, edges := make(map[string]*processInfo), make(map[string][]string)
	of := func(owner string) *processInfo {
		name := person(owner)
		if byName[name] == nil {
			o := lockjson.ProcessOf(owner)
			byName[name] = &processInfo{Process: name, Host: o.Host, PID: o.PID, Holds: []heldKey{}, Waits: []waitedForBy{}}
		}
		return byName[name]
	}
	for info, err := range locks {
		if err != nil {
			return nil, err
		}
		l := lockjson.Of(info)
		holders := []string{}
		for i, h := range info.Holders {
			p := of(h.Owner)
			p.Holds = append(p.Holds, heldKey{Key: l.Key, Mode: l.Mode, Rule: h.Rule, SinceMS: l.Holders[i].SinceMS, text: heldFor(h)})
			if !slices.Contains(holders, p.Process) {
				holders = append(holders, p.Process)
			}
		}
		for _, w := range info.Waiters {
			p := of(w.Owner)
			p.Waits = append(p.Waits, waitedForBy{l.Key, w.Mode.String(), w.Rule, w.Waited.Milliseconds(), holders, age(w.Waited)})
			edges[p.Process] = append(edges[p.Process], holders...)
		}
	}
	all := make([]*processInfo, 0, len(byName))
	for _, p := range byName {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *processInfo) int {
		return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.PID, b.PID), cmp.Compare(a.Process, b.Process))
	})
	names := make([]string, len(all))
	for i, p := range all {
		names[i] = p.Process
	}
	circle := circles.Of(names, edges)
	for _, p := range all {
		p.Circle = circle[p.Process]
	}
	slices.SortStableFunc(all, func(a, b *processInfo) int { return cmp.Compare(order(a), order(b)) })
	return all, nil
}

// order puts circles first.
func order(p *processInfo) int {
	if p.Circle == 0 {
		return int(^uint(0) >> 1)
	}
	return p.Circle
}
