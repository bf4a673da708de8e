package main

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/keyturn/keyturn/cmd/keyturn/internal/table"
	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/lockjson"
)

func (a *app) showCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show KEY",
		Short: "Show one key: its holders, its waiters in order, its record",
		Long:  "Show one key: its holders, its waiters in order, its record. The status is 66 if there is nothing.",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withEngine(cmd.Context(), func(eng *core.Engine) error {
				info, err := eng.Inspect(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				return a.show(info)
			})
		},
		ValidArgsFunction: a.completeKeys,
	}
}

func (a *app) show(info driver.LockInfo) error {
	done, err := a.json(lockjson.Of(info))
	switch {
	case err != nil:
		return err
	case info.IsFree() && done:
		return &exitError{status: statusNothing}
	case info.IsFree():
		return exit(statusNothing, "nobody holds %s or waits for it, and it is not on record", table.Safe(info.Key))
	case done:
		return nil
	}
	// One table, so that a script can read it: what a row is stands in its first column.
	t := a.table("WHAT", "PROCESS", "MODE", "RULE", "FOR", "LEFT", "TOKEN", "TRACE", "OWNER")
	for _, h := range info.Holders {
		what := "holder"
		if h.Lingers {
			what = "holder (may linger)"
		}
		t.Row(what, person(h.Owner), info.Mode.String(), h.Rule, heldFor(h), age(h.Left), strconv.FormatUint(h.Token, 10), h.Trace, h.Owner)
	}
	for i, w := range info.Waiters {
		mode := w.Mode.String()
		if w.Mode == driver.ModePermit {
			mode = fmt.Sprintf("%s of %d", mode, w.Permits)
		}
		t.Row(fmt.Sprintf("waiter %d", i+1), person(w.Owner), mode, w.Rule, age(w.Waited), "", "", w.Trace, w.Owner)
	}
	if r := info.Record; r != nil {
		what := fmt.Sprintf("record (%d bytes)", r.Size)
		if r.ResultNotKept {
			what = "record (result not kept)"
		}
		t.Row(what, person(r.Owner), "", "", "", age(r.Left), "", r.Trace, r.Owner)
	}
	return t.Flush()
}
