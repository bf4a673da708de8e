package fleet

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// childTimeout is how long a child may take to end. It is shorter than the time that the parent
// waits. If the parent is gone, it is the only limit.
const childTimeout = 5 * time.Second

// Child runs a process that [Fleet.Start] started, and returns its exit code. run works until
// ctx ends, which happens when the parent says so or is gone. run calls ready with its address
// as soon as it can be reached.
func Child(run func(ctx context.Context, ready func(addr string)) error) int {
	// Ctrl-C reaches all processes of a terminal, but the parent decides the order in which
	// they end.
	signal.Ignore(os.Interrupt)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	context.AfterFunc(ctx, func() {
		time.Sleep(childTimeout)
		fmt.Fprintln(os.Stderr, "did not end in", childTimeout)
		os.Exit(1)
	})
	if err := run(ctx, func(addr string) { fmt.Println(addr) }); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
