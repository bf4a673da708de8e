//go:build unix

package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/keyturn/keyturn/cmd/keyturn/internal/supervise"
	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/experimental/carry"
)

func (a *app) runCommand() *cobra.Command {
	var f runFlags
	var shared bool
	var permits int
	cmd := &cobra.Command{
		Use:   "run KEY... [flags] -- CMD ARGS...",
		Short: "Run a program while it holds the keys",
		Long: `Run a program while it holds the keys, all of them or none.

The program and its process group are dead before somebody else can have a key: if the lease runs out, it gets
--signal (SIGTERM), and SIGKILL one --grace later, shortly before the end. The key is released when the program and its group
are gone. It finds KEYTURN_KEY, KEYTURN_TOKEN (the fencing token), KEYTURN_OWNER and KEYTURN_LEASES. A run of a key
within a run of the same key does not wait for itself. Keys that may begin with a dash go behind a "--" of their own.

The status is the program's own, or 128 and the signal's number. Otherwise: 75 the key was not to be had within
--wait, 76 the lease was lost, 126 and 127 the program can't be run or is not there, 69 the store does not answer.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			keys, argv := splitArgs(cmd, args)
			if len(keys) == 0 {
				return usage("want %s", cmd.UseLine())
			}
			if permits < 1 && cmd.Flags().Changed("permits") {
				return usage("--permits %d: want 1 or more", permits)
			}
			if shared && permits != 0 {
				return usage("--shared and --permits exclude each other")
			}
			claims := make([]core.Claim, len(keys))
			for i, key := range keys {
				switch claims[i] = core.Exclusive(key); {
				case shared:
					claims[i] = core.Shared(key)
				case permits != 0:
					claims[i] = core.Permit(key, permits)
				}
			}
			opts, err := f.check(cmd, argv)
			if err != nil {
				return err
			}
			sigs, ctx := catch(cmd.Context())
			return ended(ctx, a.withEngine(ctx, func(eng *core.Engine) error {
				return a.run(ctx, sigs, eng, claims, &f)
			}, opts...))
		},
		ValidArgsFunction: a.completeKeys,
	}
	f.add(cmd, "cli:run")
	cmd.Flags().BoolVar(&shared, "shared", false, "share the keys with others that do the same")
	cmd.Flags().IntVar(&permits, "permits", 0, "let at most N hold a key at a time")
	cmd.Flags().BoolVar(&f.detach, "detach", false, "release the keys when the program ends, whatever it leaves running")
	return cmd
}

func (a *app) run(ctx context.Context, sigs *signals, eng *core.Engine, claims []core.Claim, f *runFlags) error {
	// A run under a run of the same key goes on under its lease.
	lease, err := a.acquire(carry.Accept(ctx, os.Getenv(leasesVar)), eng, claims, f)
	if err != nil {
		return a.waitFailed(err, f)
	}
	var result supervise.Result
	passed, err := sigs.running(ctx)
	if err == nil {
		result, err = a.supervised(lease, f, passed, os.Stdout)
	}
	released := lease.Release(context.Background())
	if err != nil {
		return err
	}
	return a.statusOfProgram(result, released)
}

// acquire waits for the keys, and says for whom.
func (a *app) acquire(ctx context.Context, eng *core.Engine, claims []core.Claim, f *runFlags) (*core.Lease, error) {
	if !f.quiet {
		defer a.progress(ctx, eng, driver.Keys(claims))()
	}
	return eng.AcquireAll(ctx, claims, core.WithRule(f.rule))
}
