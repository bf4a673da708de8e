package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"
)

func (a *app) initCommand() *cobra.Command {
	var print bool
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Make what a new store needs: the tables of a database, the marks of a Redlock",
		Long: `Make what a new store needs before its first lock: the tables of a database, where they do not exist, or the
marks that let the new nodes of a Redlock vote at once. Other stores need nothing.

The status is 1 if nodes of a Redlock have been in use.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			u, err := a.url()
			if err != nil {
				return err
			}
			if print {
				text, err := u.Script()
				if err != nil {
					return err
				}
				_, err = io.WriteString(a.stdout, text)
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), a.timeout)
			defer cancel()
			return u.Prepare(ctx)
		},
	}
	cmd.Flags().BoolVar(&print, "print", false, "print the SQL instead, for a migration")
	return cmd
}
