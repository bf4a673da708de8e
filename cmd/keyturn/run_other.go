//go:build !unix

package main

import "github.com/spf13/cobra"

// run and once need process groups and signals, which this system does not have.

func (a *app) runCommand() *cobra.Command { return notOnThisSystem("run KEY... -- CMD ARGS...") }

func (a *app) onceCommand() *cobra.Command { return notOnThisSystem("once KEY -- CMD ARGS...") }

func notOnThisSystem(use string) *cobra.Command {
	return &cobra.Command{
		Use:   use,
		Short: "Not on this system",
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return usage("%s needs process groups and signals, which this system does not have; run it on Linux, macOS or BSD", cmd.Name())
		},
		DisableFlagParsing: true,
	}
}
