package main

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/lockjson"
	"github.com/keyturn/keyturn/internal/waits"
)

func (a *app) whoCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "who [PREFIX]",
		Short: "List processes: what each holds and waits for, circles first",
		Long: `List processes: what each holds and what it waits for. What is part of a circle has the circle's number under
CIRCLE, and its process comes first. A number alone is a deadlock: requests with different traces have waited for each
other for a second. A number with a ? is a hint: processes have waited for each other for five seconds, but two
requests of one process may have nothing to do with each other.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withEngine(cmd.Context(), func(eng *core.Engine) error {
				return a.who(eng.List(cmd.Context(), strings.Join(args, "")))
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
	circle                // the first of those below
	Holds   []heldKey     `json:"holds"`
	Waits   []waitedForBy `json:"waits"`
}

// circle says to which circle of waits something belongs.
type circle struct {
	Circle   int  `json:"circle"`   // 0: none
	Deadlock bool `json:"deadlock"` // it is one of requests; otherwise it is a hint
}

type heldKey struct {
	Key     string `json:"key"`
	Mode    string `json:"mode"`
	Rule    string `json:"rule"`
	SinceMS *int64 `json:"since_ms"`
	circle
	text string
}

type waitedForBy struct {
	Key      string   `json:"key"`
	Mode     string   `json:"mode"`
	Rule     string   `json:"rule"`
	WaitedMS int64    `json:"waited_ms"`
	Behind   []string `json:"behind"` // the processes that hold the key
	circle
	text string
}

func (a *app) who(locks iter.Seq2[driver.LockInfo, error]) error {
	all, err := processesOf(locks)
	if err != nil {
		return err
	}
	if done, err := jsonRows(a, all); done {
		return err
	}
	t := a.table("CIRCLE", "PROCESS", "WHAT", "KEY", "MODE", "FOR", "RULE", "BEHIND")
	for _, p := range all {
		for _, h := range p.Holds {
			t.Row(h.circle.String(), p.Process, "holds", h.Key, h.Mode, h.text, h.Rule)
		}
		for _, w := range p.Waits {
			behind := ""
			if len(w.Behind) > 0 {
				if behind = w.Behind[0]; len(w.Behind) > 1 {
					behind += " +" + strconv.Itoa(len(w.Behind)-1)
				}
			}
			t.Row(w.circle.String(), p.Process, "waits", w.Key, w.Mode, w.text, w.Rule, behind)
		}
	}
	return t.Flush()
}

// processesOf turns keys with processes into processes with keys.
func processesOf(locks iter.Seq2[driver.LockInfo, error]) ([]*processInfo, error) {
	var infos []driver.LockInfo
	for info, err := range locks {
		if err != nil {
			return nil, err
		}
		infos = append(infos, info)
	}
	marks := circlesOf(infos)
	byName := make(map[string]*processInfo)
	of := func(owner string, is circle) *processInfo {
		name := person(owner)
		p := byName[name]
		if p == nil {
			o := lockjson.ProcessOf(owner)
			p = &processInfo{Process: name, Host: o.Host, PID: o.PID, Holds: []heldKey{}, Waits: []waitedForBy{}}
			byName[name] = p
		}
		if is.order() < p.order() {
			p.circle = is
		}
		return p
	}
	for _, info := range infos {
		l := lockjson.Of(info)
		holders := []string{}
		for i, h := range info.Holders {
			is := marks[place{h.Owner, info.Key}]
			p := of(h.Owner, is)
			p.Holds = append(p.Holds, heldKey{Key: l.Key, Mode: l.Mode, Rule: h.Rule, SinceMS: l.Holders[i].SinceMS, circle: is, text: heldFor(h)})
			if !slices.Contains(holders, p.Process) {
				holders = append(holders, p.Process)
			}
		}
		for _, w := range info.Waiters {
			is := marks[place{w.Owner, info.Key}]
			p := of(w.Owner, is)
			p.Waits = append(p.Waits, waitedForBy{l.Key, w.Mode.String(), w.Rule, w.Waited.Milliseconds(), holders, is, age(w.Waited)})
		}
	}
	all := slices.AppendSeq([]*processInfo{}, maps.Values(byName)) // none is [] in JSON
	slices.SortFunc(all, func(a, b *processInfo) int {
		return cmp.Or(cmp.Compare(a.order(), b.order()), cmp.Compare(a.Host, b.Host), cmp.Compare(a.PID, b.PID), cmp.Compare(a.Process, b.Process))
	})
	return all, nil
}

// place is a request at a key: it holds it, or waits for it.
type place struct{ owner, key string }

// circlesOf numbers the circles of waits from 1, deadlocks first, and says who is in which.
func circlesOf(infos []driver.LockInfo) map[place]circle {
	marks := make(map[place]circle)
	g := waits.Build(waits.Pairs(infos))
	for i, one := range slices.Concat(g.Deadlocks, g.Hints) {
		is := circle{i + 1, i < len(g.Deadlocks)}
		for _, w := range one.Waits {
			for _, owner := range []string{w.Waiter.Owner, w.Holder.Owner} {
				if at := (place{owner, w.Key}); marks[at].Circle == 0 {
					marks[at] = is
				}
			}
		}
	}
	return marks
}

// order puts circles first.
func (c circle) order() uint { return uint(c.Circle) - 1 }

func (c circle) String() string {
	switch {
	case c.Circle == 0:
		return ""
	case c.Deadlock:
		return strconv.Itoa(c.Circle)
	}
	return strconv.Itoa(c.Circle) + "?"
}
