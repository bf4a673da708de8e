package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/keyturn/keyturn/cmd/keyturn/internal/table"
	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/lockjson"
)

func (a *app) forceCommand() *cobra.Command {
	var reason, owner string
	var yes bool
	cmd := &cobra.Command{
		Use:   "force KEY --reason TEXT",
		Short: "Take a key away from its holders",
		Long: `Take a key away from those that hold it now; the first waiter gets it at once. A holder that is alive
goes on until its next renewal, a third of its TTL at most, so two may work on the key until then. Only a
resource that compares fencing tokens is safe from that.

The holders learn the reason. If the key has changed hands since it was looked at, it stays with its new
holder, and the status is 75. If nobody holds it, the status is 66.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := reasonOf(reason)
			if err != nil {
				return err
			}
			return a.withEngine(cmd.Context(), func(eng *core.Engine) error {
				return a.force(cmd.Context(), eng, args[0], text, owner, yes)
			})
		},
		ValidArgsFunction: a.completeKeys,
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why; the holders and the logs get it")
	cmd.Flags().StringVar(&owner, "owner", "", "only if this owner still has the key, as show and -o json name it")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask back")
	return cmd
}

// reasonOf puts the operator's name in front of the reason.
func reasonOf(text string) (string, error) {
	if strings.TrimSpace(text) == "" {
		return "", usage("--reason is missing: the logs should say why")
	}
	who := "unknown"
	if u, err := user.Current(); err == nil {
		who = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	text = who + "@" + driver.CleanHost(host) + ": " + text
	if len(text) > driver.MaxNoteBytes {
		return "", usage("--reason is %d bytes too long", len(text)-driver.MaxNoteBytes)
	}
	return text, nil
}

func (a *app) force(ctx context.Context, eng *core.Engine, key, reason, owner string, yes bool) error {
	info, err := eng.Inspect(ctx, key)
	if err != nil {
		return err
	}
	only := info.Holders
	if owner != "" {
		only = driver.NamedHolders(only, []driver.Holder{{Owner: owner}})
		if len(only) == 0 && len(info.Holders) > 0 {
			return exit(statusHeld, "%s is held by the owner %s, not by %s",
				table.Safe(key), table.Safe(info.Holders[0].Owner), table.Safe(owner))
		}
	}
	if len(only) == 0 {
		return exit(statusNothing, "nobody holds %s", table.Safe(key))
	}
	if !yes {
		if err := a.confirm(ctx, key, only); err != nil {
			return err
		}
	}
	gone, err := eng.ForceRelease(ctx, key, reason, only...)
	switch {
	case errors.Is(err, core.ErrHeld):
		return exit(statusHeld, "%s has changed hands in the meantime; nothing was done", table.Safe(key))
	case err != nil:
		return err
	case len(gone) == 0:
		return exit(statusNothing, "nobody holds %s any more", table.Safe(key))
	}
	if done, err := a.json(lockjson.Of(driver.LockInfo{Key: key, Mode: info.Mode, Holders: gone})); done {
		return err
	}
	for _, h := range gone {
		a.say("%s was taken from %s, which had it for %s", table.Safe(key), table.Safe(person(h.Owner)), heldFor(h))
	}
	return nil
}

// confirm asks back on a terminal.
func (a *app) confirm(ctx context.Context, key string, holders []driver.Holder) error {
	if !isTerminal(a.stdin) {
		return usage("force asks back on a terminal, and standard input is none: give --yes")
	}
	for _, h := range holders {
		fmt.Fprintf(a.stderr, "%s has held %s for %s; its lease lasts for %s unless it is renewed\n",
			table.Safe(person(h.Owner)), table.Safe(key), heldFor(h), age(h.Left))
	}
	fmt.Fprint(a.stderr, "A holder that is alive goes on until its next renewal. Take the key away? [y/N] ")
	answers := make(chan string, 1)
	go func() { // it ends with the process, as a read of a terminal can't be interrupted
		line, _ := bufio.NewReader(a.stdin).ReadString('\n')
		answers <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case answer := <-answers:
		if answer == "y" || answer == "yes" {
			return nil
		}
		return exit(statusNo, "nothing was done")
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(5 * time.Minute): // what was shown is too old
		return exit(statusNo, "no answer; nothing was done")
	}
}

func (a *app) forgetCommand() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "forget KEY --reason TEXT",
		Short: "Drop the record of a key, so that its next execution runs",
		Long: `Drop what Once remembers of a key, so that its next execution runs again, and the version that AdvanceVersion keeps.
A lease on the key is not touched. If there was neither, the status is 66.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := reasonOf(reason)
			if err != nil {
				return err
			}
			return a.withEngine(cmd.Context(), func(eng *core.Engine) error {
				was, err := eng.Forget(cmd.Context(), args[0], text)
				switch {
				case err != nil:
					return err
				case !was:
					return exit(statusNothing, "%s is not on record", table.Safe(args[0]))
				}
				a.say("the record of %s was dropped", table.Safe(args[0]))
				return nil
			})
		},
		ValidArgsFunction: a.completeKeys,
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why; the logs get it")
	return cmd
}
