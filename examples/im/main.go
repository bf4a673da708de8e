// Im shows what keyturn is for. It runs a small IM service, two gateways and two replicas in
// processes of their own, and puts it under load: first without locks and then with them.
//
//	go run ./examples/im          # a table
//	go run ./examples/im -json    # one object
//
// With -db it also delivers messages into a database while workers are killed with SIGKILL at
// random. The table then has rows for that. "sqlite" is a file that is deleted afterwards.
//
//	go run ./examples/im -db sqlite
//	go run ./examples/im -db postgres://...
//
// With -store its locks are somewhere else than its data. What the rules remember of messages is
// deleted there afterwards; tables stay.
//
//	go run ./examples/im -store redis://... # also redis+sentinel, redis+cluster
//	go run ./examples/im -store etcd://...
//	go run ./examples/im -store postgres://...
//	go run ./examples/im -store mysql://...
//	go run ./examples/im -store zk://...
//	go run ./examples/im -store sqlite:FILE
//
// With -observe it shows instead what a request waits for: the trace of a request that was
// blocked, beside that of the request which blocked it. It also prints where each process
// serves its metrics, until Ctrl-C.
//
//	go run ./examples/im -observe
//	go run ./examples/im -observe -svg trace.svg
//
// With -console it runs the service with slow handlers, and serves the console over its locks until
// Ctrl-C. Two of the handlers nest keys in opposite orders, so there is a deadlock to find and to end.
//
//	go run ./examples/im -console
//
// With -for it is a soak: the service under load for so long. Meanwhile a gateway, a service and a Redis of
// its own are killed with SIGKILL and started again; Redis also pauses, forgets its scripts and closes
// subscriptions. It prints how large the other processes and the Redis are. go run ./proof/bench -soak draws
// the samples.
//
//	go run ./examples/im -for 1h
//	go run ./examples/im -for 1h -rate 25 -csv soak.csv
//
// It needs nothing but Go. REDIS_URL=redis://... names the Redis to use, in which it leaves
// nothing behind. Without it, it runs a redis-server of its own, or an embedded one if that is
// not installed. The exit code is 1 if anything went wrong in spite of the locks.
//
// To read it, begin with service/ and gateway/: the handlers, and one line next to them for
// each lock. Everything else runs the service and counts.
//
//	service/   a replica: gRPC methods and an asynq worker
//	gateway/   a gateway: Echo routes
//	courier/   workers that are killed, and messages that have one effect all the same
//	delivery/  what gateways and services share about messages
//	db/        the database behind the replicas, which protects nothing
//	node/      a process's connection to Redis, and its lock engine
//	load/      the clients, and the count of what went wrong
//	fleet/     starting and ending the processes
//	anyredis/  finding a Redis
//	report/    the table and the JSON
//	observe/   telemetry: spans to one place, metrics for Prometheus, the picture
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

	"github.com/keyturn/keyturn/examples/im/fleet"
	"github.com/keyturn/keyturn/examples/im/report"
)

func main() {
	if run := role(os.Args[1:]); run != nil {
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
	if *long > 0 || *seen || *console {
		run := func(ctx context.Context, p *report.Progress) error { return watch(ctx, os.Stdout, *svg, p) }
		switch {
		case *long > 0:
			run = func(ctx context.Context, p *report.Progress) error {
				return soakInto(ctx, os.Stdout, *samples, soaking{storeURL: *storeURL, long: *long, rate: *rate}, p)
			}
		case *console:
			run = func(ctx context.Context, p *report.Progress) error { return look(ctx, os.Stdout, *storeURL, p) }
		}
		if err := show(run); err != nil {
			fmt.Fprintln(os.Stderr, "im:", err)
			os.Exit(1)
		}
		return
	}
	ok, err := demonstrate(*asJSON, *storeURL, *database)
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
