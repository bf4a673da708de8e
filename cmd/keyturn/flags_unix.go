//go:build unix

package main

import (
	"context"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/keyturn/keyturn/cmd/keyturn/internal/supervise"
	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/observe"
	"github.com/keyturn/keyturn/internal/lockjson"
)

// runFlags are the flags of run and once, and the program.
type runFlags struct {
	ttl      time.Duration
	wait     string
	failFast bool
	maxHold  time.Duration
	conflict int
	signal   string
	grace    time.Duration
	rule     string
	quiet    bool
	detach   bool // of run

	path string
	argv []string
}

const (
	defaultTTL   = 30 * time.Second
	defaultGrace = 5 * time.Second
)

func (f *runFlags) add(cmd *cobra.Command, rule string) {
	flags := cmd.Flags()
	flags.DurationVar(&f.ttl, "ttl", defaultTTL, "how long the key stays held if this machine dies")
	flags.StringVar(&f.wait, "wait", "forever", "how long to wait for the key: 0, a duration, or forever")
	flags.BoolVarP(&f.failFast, "no-wait", "n", false, "the same as --wait 0")
	flags.DurationVar(&f.maxHold, "max-hold", 0, "end CMD after this time; 0: never")
	flags.IntVarP(&f.conflict, "conflict-exit-code", "E", statusHeld, "the status if the key was not to be had in time")
	flags.StringVar(&f.signal, "signal", "TERM", "the signal that asks CMD to end: TERM, INT, HUP, QUIT, USR1, USR2 or KILL")
	flags.DurationVar(&f.grace, "grace", defaultGrace, "from that signal to SIGKILL, a third of the TTL at most")
	flags.StringVar(&f.rule, "rule", rule, "the rule that others see")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "do not say on standard error who is waited for")
}

// check checks the flags, finds the program, and returns the options of the engine.
func (f *runFlags) check(cmd *cobra.Command, argv []string) ([]core.EngineOption, error) {
	if f.conflict < 0 || f.conflict > 255 {
		return nil, usage("--conflict-exit-code %d: want 0 to 255", f.conflict)
	}
	if _, ok := supervise.Signals[strings.TrimPrefix(f.signal, "SIG")]; !ok {
		return nil, usage("--signal %q: want TERM, INT, HUP, QUIT, USR1, USR2 or KILL", f.signal)
	}
	if f.maxHold < 0 {
		return nil, usage("--max-hold %v: want 0 or more", f.maxHold)
	}
	third := f.ttl / 3
	switch {
	case !cmd.Flags().Changed("grace"):
		f.grace = min(f.grace, third)
	case f.grace < 0 || f.grace > third:
		return nil, usage("--grace %v: want 0 to a third of the TTL, %v, because CMD has to be dead when the lease ends", f.grace, third)
	}
	wait, err := f.waitOption(cmd.Flags().Changed("wait"))
	if err != nil {
		return nil, err
	}
	if f.path, err = program(argv); err != nil {
		return nil, err
	}
	f.argv = argv
	// The time that CMD may take is bounded here, because the key stays held while CMD ends.
	return []core.EngineOption{core.WithTTL(f.ttl), core.WithMaxHold(core.Forever), wait, core.WithHooks(trace())}, nil
}

func (f *runFlags) waitOption(given bool) (core.Option, error) {
	if f.failFast && !given {
		f.wait = "0"
	}
	d, err := time.ParseDuration(f.wait)
	switch {
	case f.failFast && (err != nil || d != 0):
		return nil, usage("--no-wait and --wait %s contradict each other", f.wait)
	case f.wait == "forever":
		return core.WithMaxWait(core.Forever), nil
	case err != nil || d < 0:
		return nil, usage("--wait %q: want 0, a duration such as 30s, or forever", f.wait)
	case d == 0:
		return core.WithFailFast(), nil
	}
	return core.WithMaxWait(d), nil
}

// trace stores TRACEPARENT with the lease, so those that wait for it find the trace of its holder.
func trace() observe.Hooks {
	parent := lockjson.TraceOf(os.Getenv("TRACEPARENT"))
	if parent.TraceID == "" {
		return observe.Hooks{}
	}
	return observe.Hooks{Trace: func(context.Context) string { return parent.Trace }}
}

// splitArgs divides the arguments at the "--", or at the second one if keys that may begin with a dash are
// behind the first. Without a command there are no keys.
func splitArgs(cmd *cobra.Command, args []string) (keys, argv []string) {
	dash, behind := cmd.ArgsLenAtDash(), 0
	if second := slices.Index(args, "--"); dash == 0 && second > 0 {
		dash, behind = second, 1
	}
	if dash < 0 || dash+behind == len(args) {
		return nil, nil
	}
	return args[:dash], args[dash+behind:]
}
