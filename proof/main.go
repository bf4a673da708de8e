package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/proof/member"
	"github.com/keyturn/keyturn/proof/trial"
)

func main() {
	member.ActAsProcess()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	redistest.Quiet() // servers that are killed
	switch err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "proof:", err)
		os.Exit(1)
	}
}

// errWrong says that the histories were made, and that something is wrong with one.
var errWrong = errors.New("something is wrong, see above")

// run makes histories one after the other, each with a seed of its own, until the time is over.
func run(ctx context.Context, args []string, out, messages io.Writer) error {
	flags := flag.NewFlagSet("proof", flag.ContinueOnError)
	flags.SetOutput(messages)
	var c trial.Config
	lasts := flags.Duration("for", time.Minute, "make histories for this `time`")
	flags.DurationVar(&c.Lasts, "each", time.Minute, "the `time` of one history")
	flags.Uint64Var(&c.Seed, "seed", 1, "the seed of the first history; each following one has the next `number`")
	flags.StringVar(&c.Topology, "topology", "single", fmt.Sprintf("one of `%v`", trial.Topologies()))
	faults := flags.String("faults", "all", "`names` of faults, or of groups: all, processes, network, or a topology's servers")
	flags.StringVar(&c.System, "system", "keyturn", "keyturn or, to see what it loses, another `one`: redsync, redislock, DEL")
	flags.BoolVar(&c.Confirmed, "confirmed", false, "sentinel: replicas confirm grants (WithReplicas)")
	quiet := flags.Bool("q", false, "print no line for each fault")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *faults != "" {
		c.Faults = strings.Split(*faults, ",")
	}
	if !*quiet {
		began := time.Now()
		c.Log = func(format string, args ...any) {
			fmt.Fprintf(messages, "%6.1f s  %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
		}
	}
	var sum trial.Sum
	c.Lasts = min(c.Lasts, *lasts)
	for end := time.Now().Add(*lasts); ; c.Seed++ {
		r, err := trial.Run(ctx, c)
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			return err
		}
		fmt.Fprint(out, r)
		sum.Add(r)
		if time.Until(end) < c.Lasts/2 {
			break
		}
	}
	fmt.Fprint(out, &sum)
	if sum.Wrong > 0 {
		return errWrong
	}
	return nil
}
