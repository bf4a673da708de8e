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

	"github.com/keyturn/keyturn/proof/bench/chart"
	"github.com/keyturn/keyturn/proof/bench/fleet"
	"github.com/keyturn/keyturn/proof/bench/scenario"
	"github.com/keyturn/keyturn/proof/bench/server"
	"github.com/keyturn/keyturn/proof/bench/stats"
)

func main() {
	if fleet.IsChild() {
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

// masters is the number of masters of the Cluster. They share this machine's processors, so
// more of them would only be slower.
const masters = 3

// options are the options of the command line.
type options struct {
	size    scenario.Size
	names   string
	systems string
	ladder  bool
	sql     bool
	ratios  bool
	plot    string
}

func parse(args []string, messages io.Writer) (options, error) {
	o := options{size: scenario.Full}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(messages)
	quick := flags.Bool("quick", false, "measure for less than 50 seconds in all")
	flags.StringVar(&o.names, "scenario", "", "only these `scenarios`, name[,name]")
	flags.StringVar(&o.systems, "systems", "", "only these `systems` of each scenario, name[,name]")
	flags.BoolVar(&o.ladder, "ladder", false, "measure instead 1 to 256 goroutines, a key each")
	flags.BoolVar(&o.sql, "sql", false, "measure instead locks in databases, and package fence")
	flags.BoolVar(&o.ratios, "ratios", false, "print what keyturn's figures are of the others', in Markdown, instead of a table")
	flags.StringVar(&o.plot, "plot", "", "with -ladder: also draw the chart into this SVG `file`")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("what is %q? All arguments are flags", flags.Arg(0))
	}
	if *quick {
		o.size = scenario.Quick
	}
	return o, nil
}

func run(ctx context.Context, args []string, out, messages io.Writer) (err error) {
	o, err := parse(args, messages)
	if err != nil {
		return err
	}
	all := scenario.All()
	if o.ladder {
		all = scenario.Ladder()
	}
	if o.sql {
		all = scenario.SQL()
	}
	scenarios, err := scenario.Pick(all, o.names)
	if err != nil {
		return err
	}
	if scenarios, err = scenario.With(scenarios, o.systems); err != nil {
		return err
	}
	redis, err := server.Start()
	if err != nil {
		return err
	}
	atEnd := []func() error{redis.Close}
	defer func() {
		for _, end := range atEnd {
			err = errors.Join(err, end())
		}
	}()
	env := &scenario.Env{Addrs: []string{redis.Addr}, Size: o.size}
	env.Cluster = func() ([]string, error) {
		cluster, failed := server.StartCluster(masters)
		if failed != nil {
			return nil, failed
		}
		atEnd = append(atEnd, cluster.Close)
		return cluster.Addrs, nil
	}
	databases := new(server.SQL)
	atEnd = append(atEnd, databases.Close)
	env.Database = databases.Database
	rows, err := scenario.Run(ctx, env, scenarios, messages)
	if o.plot != "" {
		err = errors.Join(err, chart.Draw(o.plot, rows))
	}
	return errors.Join(err, o.write(out, rows))
}

func (o options) write(out io.Writer, rows []stats.Row) error {
	switch {
	case o.ratios && o.ladder:
		return stats.WriteLadder(out, rows, "keyturn")
	case o.ratios:
		return stats.WriteRatios(out, rows, "keyturn")
	}
	return stats.WriteTable(out, rows)
}
