package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/store/storeurl"
)

// app is one call of the command.
type app struct {
	args   []string
	stdin  *os.File
	stdout io.Writer
	stderr *sayer

	storeURL, prefix, config string
	prefixed                 bool  // prefix is set, perhaps to ""
	misconfigured            error // for those commands that need a store
	output                   string
	noHeaders, verbose       bool
	timeout                  time.Duration
}

// Main runs the command and returns its exit status. Data goes to stdout, everything else to stderr.
func Main(args []string, stdin *os.File, stdout, stderr io.Writer) int {
	a := &app{args: args, stdin: stdin, stdout: stdout, stderr: newSayer(stderr)}
	defer a.stderr.end()
	root := a.root()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(a.stderr)
	ctx, stop := signalled()
	defer stop()
	err := root.ExecuteContext(ctx)
	return a.end(ctx, err)
}

// end says what went wrong, and returns the status.
func (a *app) end(ctx context.Context, err error) int {
	var own *exitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &own):
		if own.err != nil {
			a.say("%v", own.err)
		}
		return own.status
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		var ended signalError
		errors.As(context.Cause(ctx), &ended)
		return statusSignal + int(ended.Signal)
	case errors.Is(err, syscall.EPIPE): // as in "keyturn ls | head"
		return statusSignal + int(syscall.SIGPIPE)
	}
	a.say("%s", a.inFlags(err))
	return statusOf(err)
}

// inFlags is err as somebody reads it who gave flags and a URL, not options in Go.
func (a *app) inFlags(err error) string {
	var bad *core.OptionError
	var at *storeurl.Error
	switch {
	case !errors.As(err, &bad):
	case flagOf[bad.Option] != "":
		return fmt.Sprintf("%s %v: want %s", flagOf[bad.Option], bad.Value, bad.Want)
	case errors.As(err, &at):
		if u, _ := a.url(); u != nil && u.Query.Has(paramOf(bad.Option)) {
			return fmt.Sprintf("%s: the parameter %s %v: want %s", at.URL, paramOf(bad.Option), bad.Value, bad.Want)
		}
		return fmt.Sprintf("%s: got %v, want %s", at.URL, bad.Value, bad.Want) // it is of the servers, or the path
	}
	return err.Error()
}

// paramOf is the name of an option in a URL: WithMaxTTL is max_ttl.
func paramOf(option string) string {
	return strings.ToLower(wordEnd.ReplaceAllString(strings.TrimPrefix(option, "With"), "${1}_$2"))
}

var wordEnd = regexp.MustCompile("([a-z])([A-Z])")

// signalError is the cause of a context that a signal has ended.
type signalError struct{ syscall.Signal }

func (e signalError) Error() string { return "ended by " + e.Signal.String() }

// signalled returns a context that ends with the first SIGINT or SIGTERM.
func signalled() (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		select {
		case s := <-signals:
			cancel(signalError{s.(syscall.Signal)})
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel(nil)
	}
}

// flagOf names the flags whose values the engine or the console checks.
var flagOf = map[string]string{
	"WithTTL": "--ttl", "WithRetention": "--retention",
	"WithTitle": "--title", "WithTraceURL": "--trace-url", "WithInterval": "--interval", "WithHosts": "--host",
}

// say has a message for people. It does not wait for them to read it.
func (a *app) say(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	text = strings.TrimPrefix(strings.TrimPrefix(text, "keyturn: "), "storeurl: ")
	fmt.Fprintf(a.stderr, "keyturn: %s\n", text)
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "keyturn",
		Short:         "See, take and break locks",
		Long:          "Keyturn shows who holds which lock and who waits, frees a lock safely, and runs programs under locks.",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			return a.setUp(cmd)
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	flags := root.PersistentFlags()
	flags.StringVar(&a.storeURL, "store", "", "the `URL` of the store; also in KEYTURN_STORE, where a password is not shown by ps")
	flags.StringVar(&a.prefix, "prefix", "", "the store's parameter prefix, in place of the one in the URL; also in KEYTURN_PREFIX")
	flags.StringVar(&a.config, "config", "", "a `FILE` with lines store = URL and prefix = TEXT; also in KEYTURN_CONFIG")
	flags.StringVarP(&a.output, "output", "o", "", "wide, json (one value) or jsonl (one object per line) instead of a table")
	flags.BoolVar(&a.noHeaders, "no-headers", false, "tables without headings")
	flags.BoolVarP(&a.verbose, "verbose", "v", false, "also log what the engine and the store say")
	flags.DurationVar(&a.timeout, "timeout", 10*time.Second, "how long the store may take to answer a question")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if strings.HasSuffix(err.Error(), " --json") {
			return usage("%v; want -o json", err)
		}
		return usage("%v; see %s --help", err, cmd.CommandPath())
	})
	root.AddCommand(
		a.listCommand(), a.showCommand(), a.whoCommand(), a.watchCommand(),
		a.forceCommand(), a.forgetCommand(),
		a.runCommand(), a.onceCommand(),
		a.doctorCommand(), a.initCommand(), a.uiCommand(),
		a.versionCommand(),
	)
	checkArgs(root)
	return root
}

// checkArgs has wrong arguments of every command be usage errors.
func checkArgs(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return usage("%v; see %s --help", err, cmd.CommandPath())
			}
			return nil
		}
	}
	for _, sub := range cmd.Commands() {
		checkArgs(sub)
	}
}

// setUp reads the configuration before a command runs.
func (a *app) setUp(cmd *cobra.Command) error {
	switch a.output {
	case "", "wide", "json", "jsonl":
	default:
		return usage("--output %q: want wide, json or jsonl", a.output)
	}
	if a.timeout <= 0 {
		return usage("--timeout %v: want more than 0", a.timeout)
	}
	// The libraries below log warnings, which are for services. Their errors come back anyway.
	log := slog.New(slog.DiscardHandler)
	if a.verbose {
		log = a.log()
	}
	slog.SetDefault(log)
	a.misconfigured = a.configure(cmd)
	return nil
}

// log is what is meant to be kept, beside what people are told.
func (a *app) log() *slog.Logger { return slog.New(slog.NewTextHandler(a.stderr, nil)) }
