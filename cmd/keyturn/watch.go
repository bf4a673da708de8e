package main

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/keyturn/keyturn/cmd/keyturn/internal/table"
	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/lockjson"
)

const (
	minInterval     = 100 * time.Millisecond
	defaultInterval = time.Second
)

func (a *app) watchCommand() *cobra.Command {
	var interval time.Duration
	var records bool
	cmd := &cobra.Command{
		Use:   "watch [PREFIX]",
		Short: "Print a line for each change",
		Long: `Print a line for each change of a key, until a signal comes. It looks at all keys every --interval, so what comes
and goes in between is not seen. The first look prints what is there.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if interval < minInterval {
				return usage("--interval %v: want %v or more", interval, minInterval)
			}
			return a.withEngine(cmd.Context(), func(eng *core.Engine) error {
				return a.watch(cmd.Context(), eng, strings.Join(args, ""), interval, records)
			})
		},
		ValidArgsFunction: a.completeKeys,
	}
	cmd.Flags().DurationVar(&interval, "interval", defaultInterval, "the pause between two looks")
	cmd.Flags().BoolVar(&records, "records", false, "also when a key comes on record, and when its record is over")
	return cmd
}

// change is a line of watch.
type change struct {
	Time    string `json:"time"` // RFC 3339, by this machine's clock
	Change  string `json:"change"`
	Process string `json:"process"` // whose change it is, as ls names it; "" if nobody's
	lockjson.Lock
}

// watch looks until ctx ends, which is no failure. If the store does not answer, the next look may
// succeed.
func (a *app) watch(ctx context.Context, eng *core.Engine, prefix string, interval time.Duration, records bool) error {
	t := a.tableOfChanges()
	known := make(map[string]driver.LockInfo)
	failing := false
	for first := true; ; first = false {
		now, err := look(ctx, eng, prefix, records)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && first:
			return err
		case err != nil:
			if !failing {
				a.say("%v; looking again", err)
			}
			failing = true
		default:
			failing = false
			if err := a.writeChanges(t, compare(known, now, records)); err != nil {
				return err
			}
			known = now
		}
		if err := a.rest(ctx, interval); err != nil {
			return err
		}
	}
}

// rest waits for d, until ctx ends, or until nobody reads the output any more, as in "keyturn watch | head -2". A
// write would say so, too, but the next change may be a long time away.
func (a *app) rest(ctx context.Context, d time.Duration) error {
	const often = 100 * time.Millisecond
	for ; d > 0; d -= often {
		if unread(a.stdout) {
			return syscall.EPIPE
		}
		select {
		case <-time.After(min(d, often)):
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}

// look returns the keys that are held or waited for, and with records those on record, too.
func look(ctx context.Context, eng *core.Engine, prefix string, records bool) (map[string]driver.LockInfo, error) {
	list := eng.List
	if records {
		list = eng.ListAll
	}
	all := make(map[string]driver.LockInfo)
	for info, err := range list(ctx, prefix) {
		if err != nil {
			return nil, err
		}
		all[info.Key] = info
	}
	return all, nil
}

// compare returns the changes from one look to the next, in the order of the keys.
func compare(before, now map[string]driver.LockInfo, records bool) []change {
	both := maps.Clone(before)
	maps.Copy(both, now)
	var all []change
	for _, key := range slices.Sorted(maps.Keys(both)) {
		old, is := before[key], now[key]
		is.Key = key
		add := func(what, owner string) {
			c := change{Change: what, Lock: lockjson.Of(is)}
			if owner != "" {
				c.Process = person(owner)
			}
			all = append(all, c)
		}
		for _, h := range old.Holders {
			if !slices.ContainsFunc(is.Holders, func(o driver.Holder) bool { return o.Owner == h.Owner }) {
				add("ended", h.Owner)
			}
		}
		for _, h := range is.Holders {
			if !slices.ContainsFunc(old.Holders, func(o driver.Holder) bool { return o.Owner == h.Owner }) {
				add("held", h.Owner)
			}
		}
		if len(old.Waiters) != len(is.Waiters) {
			owner := ""
			if n := len(is.Waiters); n > 0 {
				owner = is.Waiters[n-1].Owner
			}
			add("waiters", owner)
		}
		switch {
		case !records:
		case old.Record == nil && is.Record != nil:
			add("recorded", is.Record.Owner)
		case old.Record != nil && is.Record == nil:
			add("forgotten", old.Record.Owner)
		}
	}
	return all
}

// tableOfChanges is nil for JSON, which is one object a line in any case.
func (a *app) tableOfChanges() *table.Table {
	if a.output == "json" || a.output == "jsonl" {
		return nil
	}
	return table.New(a.stdout, table.Style{NoHeaders: a.noHeaders}, "TIME", "CHANGE", "KEY", "PROCESS", "WAITERS")
}

func (a *app) writeChanges(t *table.Table, changes []change) error {
	var errs []error
	at := time.Now()
	for _, c := range changes {
		if c.Time = at.Format(time.RFC3339Nano); t == nil {
			errs = append(errs, lockjson.WriteLine(a.stdout, c))
			continue
		}
		waiters := ""
		if n := len(c.Waiters); n > 0 {
			waiters = strconv.Itoa(n)
		}
		t.Row(at.Format("15:04:05.000"), c.Change, c.Key, c.Process, waiters)
	}
	if t != nil {
		errs = append(errs, t.Flush()) // a reader of the pipe sees each line at once
	}
	return errors.Join(errs...)
}
