// Im shows what keyturn is for. It runs a small IM service, two gateways and two replicas in
// processes of their own, and puts it under load: first without locks and then with them.
//
//	go run ./examples/im          # a table
//	go run ./examples/im -json    # one object
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
//	delivery/  what gateways and services share about messages
//	db/        the database behind the replicas, which protects nothing
//	node/      a process's connection to Redis, and its lock engine
//	load/      the clients, and the count of what went wrong
//	report/    the table and the JSON
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

	"github.com/keyturn/keyturn/examples/internal/fleet"
)

func main() {
	if run := role(os.Args[1:]); run != nil {
		os.Exit(fleet.Child(run))
	}
	asJSON := flag.Bool("json", false, "print one JSON object instead of a table")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(flag.CommandLine.Output(), "unexpected argument: %s\n", flag.Arg(0))
		flag.Usage()
		os.Exit(2)
	}
	ok, err := demonstrate(*asJSON)
	if err != nil {
		fmt.Fprintln(os.Stderr, "im:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

var errInterrupted = errors.New("interrupted; every process has been ended")

// demonstrate runs and reports. ok says that nothing went wrong with locks.
func demonstrate(asJSON bool) (ok bool, err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The first Ctrl-C ends everything in order, the second at once.
	context.AfterFunc(ctx, stop)

	var progress io.Writer = os.Stderr
	if asJSON {
		progress = io.Discard
	}
	result, err := drive(ctx, func(format string, args ...any) {
		fmt.Fprintf(progress, format+"\n", args...)
	})
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
