// Package run runs the example: a fleet of processes under load, without locks and with them. Its
// commands differ in what they link.
package run

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/keyturn/keyturn/examples/im/fleet"
	"github.com/keyturn/keyturn/examples/im/report"
)

// Parts are what a command has besides the table and the soak. A nil one is missing.
type Parts struct {
	// Telemetry starts the telemetry of a process with this name, and returns what stops it.
	Telemetry func(ctx context.Context, name, collector string) (stop func(context.Context) error, err error)
	// Watch shows what a request waits for; svg: a file for a picture, or "".
	Watch func(ctx context.Context, out io.Writer, svg string, p *report.Progress) error
	// Console serves the console over the locks.
	Console func(ctx context.Context, out io.Writer, storeURL string, p *report.Progress) error
}

// errElsewhere says that a flag needs what this command does not link.
var errElsewhere = errors.New("this command links no databases, no telemetry and no console: go run ./examples/im/all does")

// Main is the program: it runs what the flags ask for, or is one of the fleet's processes.
func Main(parts Parts) {
	if run := role(os.Args[1:], parts.Telemetry); run != nil {
		os.Exit(fleet.Child(run))
	}
	asJSON := flag.Bool("json", false, "print one JSON object instead of a table")
	seen := flag.Bool("observe", false, "print the trace of a blocked request, and serve metrics until Ctrl-C")
	database := flag.String("db", "", "also deliver messages into a `database` while workers are killed: sqlite, a file's name, or a postgres URL")
	storeURL := flag.String("store", "", "the `URL` of the store of the locks; the default is the Redis of the data")
	svg := flag.String("svg", "", "with -observe: draw the trace into this `file`, too")
	long := flag.Duration("for", 0, "put the guarded service under load and faults for so long, and print how large it is meanwhile")
	rate := flag.Float64("rate", 0, "with -for: `requests` per second; the default is as many as there can be")
	samples := flag.String("csv", "", "with -for: write samples into this `file`")
	console := flag.Bool("console", false, "serve the console over the running example until Ctrl-C")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(flag.CommandLine.Output(), "unexpected argument: %s\n", flag.Arg(0))
		flag.Usage()
		os.Exit(2)
	}
	var err error
	ok := true
	switch {
	case *seen && parts.Watch == nil, *console && parts.Console == nil, *database != "" && len(sql.Drivers()) == 0:
		err = errElsewhere
	case *long > 0:
		err = show(func(ctx context.Context, p *report.Progress) error {
			return soakInto(ctx, os.Stdout, *samples, soaking{storeURL: *storeURL, long: *long, rate: *rate}, p)
		})
	case *console:
		err = show(func(ctx context.Context, p *report.Progress) error {
			return parts.Console(ctx, os.Stdout, *storeURL, p)
		})
	case *seen:
		err = show(func(ctx context.Context, p *report.Progress) error { return parts.Watch(ctx, os.Stdout, *svg, p) })
	default:
		ok, err = demonstrate(*asJSON, *storeURL, *database)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "im:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

// show runs something until Ctrl-C, which is no failure here.
func show(run func(context.Context, *report.Progress) error) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	return run(ctx, report.NewProgress(os.Stderr, isTerminal(os.Stderr)))
}

var errInterrupted = errors.New("interrupted; every process has been ended")

// demonstrate runs and reports. ok says that nothing went wrong with locks.
func demonstrate(asJSON bool, storeURL, database string) (ok bool, err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The first Ctrl-C ends everything in order, the second at once.
	context.AfterFunc(ctx, stop)

	var out io.Writer = os.Stderr
	terminal := isTerminal(os.Stderr)
	if asJSON && !terminal {
		out = io.Discard
	}
	progress := report.NewProgress(out, terminal)
	result, err := drive(ctx, storeURL, database, progress)
	progress.Stop()
	if ctx.Err() != nil {
		return false, errInterrupted
	}
	if err != nil {
		return false, err
	}
	write := result.WriteTable
	if asJSON {
		write = result.WriteJSON
	}
	return result.Clean(), write(os.Stdout)
}

// isTerminal also reports true for some other devices, which does no harm.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
