package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/keyturn/keyturn/proof/bench/scenario"
)

func main() {
	if scenario.IsChild() {
		os.Exit(scenario.Child())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	switch err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out, messages io.Writer) (err error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(messages)
	quick := flags.Bool("quick", false, "measure for less than 50 seconds in all")
	names := flags.String("scenario", "", "only these `scenarios`, name[,name]")
	systems := flags.String("systems", "", "only these `systems` of each scenario, name[,name]")
	ladder := flags.Bool("ladder", false, "measure instead 1 to 256 goroutines, a key each")
	sql := flags.Bool("sql", false, "measure instead locks in databases, and package fence")
	ratios := flags.Bool("ratios", false, "print what keyturn's figures are of the others', in Markdown, instead of a table")
	plot := flags.String("plot", "", "with -ladder: also draw the chart into this SVG `file`")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("what is %q? All arguments are flags", flags.Arg(0))
	}
	size, all := scenario.Full, scenario.All()
	if *quick {
		size = scenario.Quick
	}
	if *ladder {
		all = scenario.Ladder()
	}
	if *sql {
		all = scenario.SQL()
	}
	scenarios, err := scenario.Pick(all, *names, *systems)
	if err != nil {
		return err
	}
	const system = "keyturn" // which is compared with the others
	env := scenario.NewEnv(size)
	defer func() { err = errors.Join(err, env.Close()) }()
	rows, err := scenario.Run(ctx, env, scenarios, messages)
	if *plot != "" {
		err = errors.Join(err, rows.Draw(*plot))
	}
	if *ratios {
		return errors.Join(err, rows.WriteRatios(out, system, *ladder))
	}
	return errors.Join(err, rows.WriteTable(out, system))
}
