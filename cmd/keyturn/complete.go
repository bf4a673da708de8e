package main

import (
	"context"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/keyturn/keyturn/core"
)

// completeTimeout is how long a shell waits for keys, and mostCompletions how many it gets.
const (
	completeTimeout = 300 * time.Millisecond
	mostCompletions = 200
)

// completeKeys offers the keys of the store to a shell.
func (a *app) completeKeys(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if slices.Contains(a.args, "--") { // a program and its arguments; cobra does not tell
		return nil, cobra.ShellCompDirectiveDefault
	}
	if len(args) > 0 && cmd.Name() != "run" || a.setUp(cmd) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	a.stderr = newSayer(io.Discard) // a message would appear in the middle of the command line
	ctx, cancel := context.WithTimeout(context.Background(), completeTimeout)
	defer cancel()
	var keys []cobra.Completion
	_ = a.withEngine(ctx, func(eng *core.Engine) error { // without a store there is nothing to offer
		for info, err := range eng.ListAll(ctx, toComplete) {
			if err != nil || len(keys) == mostCompletions {
				break
			}
			keys = append(keys, info.Key)
		}
		return nil
	})
	return keys, cobra.ShellCompDirectiveNoFileComp
}
