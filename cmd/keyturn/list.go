package main

import (
	"cmp"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/keyturn/keyturn/cmd/keyturn/internal/table"
	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/lockjson"
)

// filter says which keys ls shows.
type filter struct {
	// Any of those that are set. None: held or waited for. Without records the store is not asked for those, because
	// there may be one of each message of a day.
	held, waiting, records bool
	longerThan             time.Duration
	rule, host             string
}

func (a *app) listCommand() *cobra.Command {
	var f filter
	cmd := &cobra.Command{
		Use:   "ls [PREFIX]",
		Short: "List the keys that are held or waited for, or with --records those on record",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.longerThan < 0 {
				return usage("--longer-than %v: want 0 or more", f.longerThan)
			}
			return a.withEngine(cmd.Context(), func(eng *core.Engine) error {
				list := eng.List
				if f.records {
					list = eng.ListAll
				}
				return a.list(f.of(list(cmd.Context(), strings.Join(args, ""))))
			})
		},
		ValidArgsFunction: a.completeKeys,
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.held, "held", false, "only keys that are held")
	flags.BoolVar(&f.waiting, "waiting", false, "only keys that somebody waits for")
	flags.BoolVar(&f.records, "records", false, "only keys with a record, which are left out otherwise")
	flags.DurationVar(&f.longerThan, "longer-than", 0, "only keys that were held or waited for longer than this")
	flags.StringVar(&f.rule, "rule", "", "only keys that a holder or waiter of this rule wants")
	flags.StringVar(&f.host, "host", "", "only keys with a holder or waiter on this host")
	return cmd
}

// of returns the keys that pass the filter.
func (f filter) of(locks iter.Seq2[driver.LockInfo, error]) iter.Seq2[driver.LockInfo, error] {
	return func(yield func(driver.LockInfo, error) bool) {
		for info, err := range locks {
			if (err != nil || f.passes(info)) && !yield(info, err) {
				return
			}
		}
	}
}

func (f filter) passes(info driver.LockInfo) bool {
	any := !f.held && !f.waiting && !f.records
	if !((f.held || any) && len(info.Holders) > 0 || (f.waiting || any) && len(info.Waiters) > 0 || f.records && info.Record != nil) {
		return false
	}
	long, rule, host := f.longerThan == 0, f.rule == "", f.host == ""
	see := func(owner, ruleOf string, since time.Duration) {
		long = long || since > f.longerThan
		rule = rule || ruleOf == f.rule
		host = host || lockjson.ProcessOf(owner).Host == f.host
	}
	for _, h := range info.Holders {
		see(h.Owner, h.Rule, h.HeldFor)
	}
	for _, w := range info.Waiters {
		see(w.Owner, w.Rule, w.Waited)
	}
	return long && rule && host
}

// list writes keys, each as it comes, except in columns, whose widths are known at the end.
func (a *app) list(locks iter.Seq2[driver.LockInfo, error]) error {
	switch a.output {
	case "json":
		return lockjson.WriteArray(a.stdout, locks)
	case "jsonl":
		return lockjson.WriteLines(a.stdout, locks)
	}
	headings := []string{"KEY", "MODE", "HOLDER", "RULE", "HELD", "LEFT", "WAITERS", "LONGEST", "RECORD"}
	if a.output == "wide" {
		headings = append(headings, "TOKEN", "OWNER", "TRACE")
	}
	t, empty := a.table(headings...), true
	for info, err := range locks {
		switch {
		case err != nil && empty: // headings alone would say that there is nothing
			return err
		case err != nil:
			_ = t.Flush() // what has come; err says that it is not all
			return err
		}
		listRow(t, info)
		empty = false
	}
	return t.Flush()
}

// listRow writes a row for a key: its first holder, and how many more there are.
func listRow(t *table.Table, info driver.LockInfo) {
	var mode, holder, rule, held, left, waiters, longest, record, token, owner, trace string
	if n := len(info.Holders); n > 0 {
		h := info.Holders[0]
		mode, holder, rule, trace, owner = info.Mode.String(), person(h.Owner), h.Rule, h.Trace, h.Owner
		held, left, token = heldFor(h), age(h.Left), strconv.FormatUint(h.Token, 10)
		if n > 1 {
			holder += " +" + strconv.Itoa(n-1)
		}
	}
	if n := len(info.Waiters); n > 0 {
		var most time.Duration
		for _, w := range info.Waiters {
			most = max(most, w.Waited)
		}
		waiters, longest = strconv.Itoa(n), age(most)
		rule = cmp.Or(rule, info.Waiters[0].Rule)
	}
	if info.Record != nil {
		record = age(info.Record.Left)
	}
	t.Row(info.Key, mode, holder, rule, held, left, waiters, longest, record, token, owner, trace)
}

// heldFor writes how long a holder has had its lease; "?" if nobody knows.
func heldFor(h driver.Holder) string {
	if h.HeldFor == 0 && h.Token == 0 { // a foreign client
		return "?"
	}
	return age(h.HeldFor)
}
